"""Random wrong arrays, labels and folders, on each base of tasks: an error that names what is wrong, never torch's."""

import re
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from fuzz.budget import cases
from hypothesis import given
from hypothesis import strategies as st
from wrong_arrays import BASES, CLASSIFIERS, ROWS, WIDTH, Line, begin, right

from harness.contracts.randomness import Streams
from harness.system.errors import BenchError, DataError
from harness.tasks import Network
from tasks.vision.imagenet import ImageNet

pytestmark = pytest.mark.usefixtures("one_thread")

OF_TORCH = re.compile(r"RuntimeError|IndexError|mat1|tensor a|dimension \d|size of|Expected|dtype Long|subscript")
"""Parts of messages of torch."""

numbers = st.integers(0, 2**32 - 1).map(np.random.default_rng)
SHAPES = ((), (1,), (3,), (WIDTH,), (2, 2), (WIDTH + 1,), (2, 3, 1))
TYPES = (
    bool,
    np.int8,
    np.uint16,
    np.uint64,
    np.int64,
    np.float16,
    np.float32,
    ">f8",
    np.longdouble,
    complex,
    object,
    str,
)


def tried(make):
    """What a function returns, and None; or None, and the error that it raised for a user."""
    try:
        return make(), None
    except BenchError as error:
        return None, error


@st.composite
def any_arrays(draw):
    """Arrays of any lengths, widths and types, of which few fit each other."""
    rng, parts = draw(numbers), {}
    for part, n in ROWS.items():
        parts[part] = {}
        for name in draw(st.sets(st.sampled_from(["x", "label", "y", "z"]), min_size=1)):
            shape = (draw(st.sampled_from([n, n, n, n + 1, 1, 0])), *draw(st.sampled_from(SHAPES)))
            values = rng.integers(0, draw(st.sampled_from([1, 3, 300])), shape) - draw(st.sampled_from([0, 0, 1]))
            parts[part][name] = values.astype(draw(st.sampled_from(TYPES)))
    return parts


@cases(60)
@given(any_arrays(), st.sampled_from(BASES), st.sampled_from([None, 1, 8]))
def test_any_arrays_are_used_or_refused_by_name(arrays, base, batch):
    loop, refused = tried(lambda: begin(base, arrays, batch=batch))
    if refused:
        text = str(refused).partition(": return")[0]
        assert text.startswith((base.__name__, f"the observer of {base.__name__}", "task.batch")), refused
        assert not OF_TORCH.search(text), refused
        return
    while not loop.finished:
        loop.advance_block()
    values = [] if loop.runs[0].divergence else loop.runs[0].observer.outcome().metrics.values()
    assert all(value is None or np.isfinite(value) for value in values)


def position(rng, shape):
    return tuple(int(rng.integers(n)) for n in shape)


def put(value):
    def change(rng, arrays, name):
        array = arrays[name].astype(float if isinstance(value, float) else arrays[name].dtype)
        array[position(rng, array.shape)] = value
        arrays[name] = array

    return change


def cut(rng, arrays, name):
    arrays[name] = arrays[name][: int(rng.integers(len(arrays[name])))]


def mask(rng, arrays, name):
    hidden = np.zeros(arrays[name].shape, dtype=bool)
    hidden[position(rng, hidden.shape)] = True
    arrays[name] = np.ma.masked_array(arrays[name], hidden)


def turn(make):
    return lambda _, arrays, name: arrays.__setitem__(name, make(arrays[name]))


ANY = {
    "nan": put(float("nan")), "inf": put(float("inf")), "-inf": put(float("-inf")), "cut": cut, "mask": mask,
    "object": turn(lambda a: a.astype(object)), "text": turn(lambda a: a.astype(str)),
}  # fmt: skip
LABEL = {
    "float": turn(lambda a: a.astype(float)), "negative": put(-1), "large": put(9), "one-based": turn(lambda a: a + 1),
    "one-hot": turn(lambda a: np.eye(3, dtype=int)[a]), "column": turn(lambda a: a[:, None]),
}  # fmt: skip


@cases(60)
@given(numbers, st.sampled_from(CLASSIFIERS), st.sampled_from([*ROWS]), st.booleans(), st.data())
def test_one_wrong_array_of_a_classifier_is_never_accepted(rng, base, part, of_label, data):
    name = "label" if of_label else "x"
    kinds = ANY | LABEL if of_label else ANY
    arrays = right(rng)
    kinds[data.draw(st.sampled_from([*kinds]))](rng, arrays[part], name)
    with pytest.raises(DataError) as raised:
        begin(base, arrays)
    assert str(raised.value).startswith(f"{base.__name__}.arrays('{part}'): ")
    assert re.search(rf"\b{name}\b", str(raised.value))
    assert not OF_TORCH.search(str(raised.value))


@cases(20)
@given(numbers, st.sampled_from(["x", "y"]), st.sampled_from([*ANY]))
def test_one_wrong_array_of_a_regression_is_never_accepted(rng, name, kind):
    arrays = right(rng)
    ANY[kind](rng, arrays["train"], name)
    with pytest.raises(DataError, match=rf"^Line\.arrays\('train'\): .*\b{name}\b"):
        begin(Line, arrays)


class Pixels(ImageNet):
    def network(self):
        return Network(lambda: torch.nn.Sequential(torch.nn.AvgPool2d(112), torch.nn.Flatten(), torch.nn.Linear(12, 2)))


def picture(rng, kind):
    """The bytes of an image, or of none."""
    import io

    from PIL import Image

    stream = io.BytesIO()
    if kind == "float":
        Image.fromarray(rng.random((20, 30)).astype(np.float32)).save(stream, "TIFF")
    elif kind == "frames":
        frames = [Image.new("RGB", (20, 20), colour) for colour in ("red", "blue")]
        frames[0].save(stream, "GIF", save_all=True, append_images=frames[1:])
    else:
        Image.fromarray(rng.integers(0, 256, (20, 30, 3), dtype=np.uint8)).save(stream, "PNG")
    content = stream.getvalue()
    return {"cut": content[: int(rng.integers(len(content) - 20))], "noise": rng.bytes(50)}.get(kind, content)


@cases(25)
@given(
    numbers,
    st.sets(st.sampled_from(["cat", "dog", "Dog", "fox"]), min_size=2, max_size=3),
    st.sets(st.sampled_from(["cat", "dog", "Dog", "fox"]), min_size=2, max_size=3),
    st.sampled_from(["right", "right", "cut", "noise", "float", "frames"]),
)
def test_any_folder_of_images_is_used_or_refused_by_name(rng, train, val, kind):
    with tempfile.TemporaryDirectory() as folder:
        for part, names in (("train", train), ("val", val)):
            for name in names:
                path = Path(folder, part, name, "1.png")
                path.parent.mkdir(parents=True)
                path.write_bytes(picture(rng, "right"))
        chosen = rng.choice(sorted(Path(folder).glob("*/*/1.png")))
        chosen.write_bytes(picture(rng, kind))
        task = Pixels(folder=folder, images=len(train), classes=len(train), batch=1, threads=1)
        problem, refused = tried(lambda: task.build([Streams(0, 0)], "cpu"))
        assert (refused is None) == (train == val and kind == "right"), refused
        assert refused or problem.labels["test"].tolist() == list(range(len(train)))
        assert not refused or (folder in str(refused) and not OF_TORCH.search(str(refused)))
