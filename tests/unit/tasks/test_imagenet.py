import io
import shutil

import numpy as np
import pytest
import torch
from support import make_loop, run_loop
from torch import nn

from harness.contracts.randomness import Streams
from harness.system.errors import DataError
from harness.tasks import Network
from plugins.checking.task_laws import law_chains_have_their_own_streams
from plugins.samplers.sgdm import SGDM
from plugins.schedules.constant import Constant
from tasks.datasets.imagefolder import ImageFolder, crop
from tasks.vision.imagenet import ImageNet

pytestmark = pytest.mark.usefixtures("one_thread")


class Tiny(ImageNet):
    """With a network that takes milliseconds."""

    def network(self):
        return Network(
            lambda: nn.Sequential(
                nn.AvgPool2d(28), nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 3)
            )
        )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three classes of JPEGs of many sizes: 4 to train on and 2 to be tried on each."""
    from PIL import Image

    root = tmp_path_factory.mktemp("imagenet")
    generator = np.random.default_rng(0)
    for part, images in (("train", 4), ("val", 2)):
        for name in ("n01", "n02", "n03"):
            (root / part / name).mkdir(parents=True)
            for i in range(images):
                side = generator.integers(230, 300, 2)
                pixels = generator.integers(0, 256, (*side, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(root / part / name / f"{i}.JPEG")
    return root


def task(folder, cls=Tiny, **settings):
    return cls(**{"folder": str(folder), "batch": 5, "images": 12, "classes": 3, "threads": 2, **settings})


def test_a_run_reads_the_folder_and_says_top_1_and_top_5(folder):
    loop = run_loop(make_loop(task(folder), SGDM(), Constant(step_size=1e-3), 4, chains=1, burn_in=2))
    values = loop.runs[0].observer.outcome().metrics
    assert 0 <= values["top1"] <= values["top5"] == 100
    assert loop.problem.labels["test"].tolist() == [0, 0, 1, 1, 2, 2]


def test_batches_do_not_depend_on_threads_nor_on_what_is_decoded_ahead(folder):
    ends = []
    for threads, restart in ((1, False), (4, False), (2, True)):
        problem = task(folder, threads=threads).build([Streams(0, 0)], "cpu")
        for _ in range(2):
            drawn = problem.draw_batches(1)
        if restart:
            problem.pending.clear()
        batch = {name: leaf[0] for name, leaf in drawn.items()}
        pixels, labels = problem.batch_rows(0, batch, int((batch["index"] < problem.terms).sum()))
        assert pixels.shape == (5, 224, 224, 3)
        assert labels.tolist() == (batch["index"][0] // 4).tolist()
        ends.append(pixels)
    assert torch.equal(ends[0], ends[1])
    assert torch.equal(ends[0], ends[2])


def test_what_comes_next_is_under_way_and_no_more_is_kept_than_that(folder):
    problem = task(folder, batch=2).build([Streams(0, 0)], "cpu")
    for _ in range(15):
        drawn = {name: leaf[0] for name, leaf in problem.draw_batches(1).items()}
        problem.batch_rows(0, drawn, 2)
    assert 1 <= len(problem.pending) <= 8


def test_a_restored_loop_goes_on_bit_for_bit(folder):
    straight, first, second = (make_loop(task(folder), SGDM(), Constant(step_size=1e-4), 5, chains=1) for _ in range(3))
    run_loop(straight)
    while first.position < 2:
        first.advance_block()
    second.restore([first.checkpoint(first.runs[0])])
    run_loop(second)
    assert torch.equal(second.theta, straight.theta)


def test_chains_have_their_own_streams(folder):
    law_chains_have_their_own_streams(task(folder))


def test_random_parts_are_those_of_torchvision_in_law():
    from torchvision.transforms import RandomResizedCrop

    generator = np.random.default_rng(0)
    ours = np.array([crop(generator, 250, 300) for _ in range(4000)])
    image = torch.empty(3, 250, 300)
    torch.manual_seed(0)
    theirs = np.array([RandomResizedCrop.get_params(image, [0.08, 1.0], [3 / 4, 4 / 3]) for _ in range(4000)])
    spread = np.sqrt((ours.var(axis=0) + theirs.var(axis=0)) / 4000)
    assert (np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) < 4.5 * spread).all()
    assert crop(np.random.default_rng(0), 10, 1000) == (0, 493, 10, 13)


def test_what_is_missing_is_said_with_how_to_get_it(folder, tmp_path, monkeypatch):
    streams = [Streams(0, 0)]
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"imagenet/train\. ImageNet .*image-net\.org.*task\.folder=PATH"):
        ImageNet().build(streams, "cpu")
    with pytest.raises(DataError, match=r"12 images, not 13; .*task\.images=12"):
        task(folder, images=13).build(streams, "cpu")
    with pytest.raises(DataError, match="3 folders of classes, not 4"):
        task(folder, classes=4).build(streams, "cpu")
    (tmp_path / "imagenet" / "train" / "n01").mkdir(parents=True)
    with pytest.raises(DataError, match=r"n01.*image-net\.org"):
        ImageNet().build(streams, "cpu")


def saved(image, kind, **options):
    from PIL import Image

    stream = io.BytesIO()
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(stream, kind, **options)
    return stream.getvalue()


def gradient(dtype, most):
    """Values from 0 to most, larger from left to right."""
    return np.broadcast_to(np.linspace(0, most, 300), (240, 300)).astype(dtype)


def animation(kind, mode="RGB"):
    from PIL import Image

    frames = [Image.new(mode, (30, 30), colour) for colour in ("red", "green", "blue")]
    return saved(frames[0], kind, save_all=True, append_images=frames[1:])


NOISE = np.random.default_rng(0).integers(0, 256, (240, 300, 3), dtype=np.uint8)
UNREADABLE = {
    "no image": (lambda: b"no image", "cannot identify"),
    "empty": (lambda: b"", "cannot identify"),
    "truncated JPEG": (lambda: saved(NOISE, "JPEG")[:9000], "truncated"),
    "truncated PNG": (lambda: saved(NOISE, "PNG")[:9000], "truncated"),
    "damaged PNG": (lambda: saved(NOISE, "PNG")[:50] + bytes(100) + saved(NOISE, "PNG")[150:], "broken data"),
    "GIF of frames": (lambda: animation("GIF"), "3 frames"),
    "PNG of frames": (lambda: animation("PNG"), "3 frames"),
    "TIFF of pages": (lambda: animation("TIFF"), "3 frames"),
    "float": (lambda: saved(gradient(np.float32, 1), "TIFF"), "range of its values is not known"),
    "32 bits": (lambda: saved(gradient(np.int32, 2**31 - 1), "TIFF"), "range of its values is not known"),
    "huge": (lambda: saved(np.zeros((9000, 9000), bool), "PNG"), "9,000 x 9,000 is too large"),
    "a line": (lambda: saved(np.zeros((2, 5000), np.uint8), "PNG"), "5,000 x 2 is too large"),
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_an_image_that_cannot_be_read_is_named_before_the_first_step(folder, tmp_path, kind):
    shutil.copytree(folder, tmp_path / "set")
    content, reason = UNREADABLE[kind]
    (tmp_path / "set" / "val" / "n02" / "0.JPEG").write_bytes(content())
    with pytest.raises(DataError, match=rf"n02/0\.JPEG is no image that can be read: .*{reason}"):
        task(tmp_path / "set").build([Streams(0, 0)], "cpu")


@pytest.mark.parametrize("mode", ["1", "L", "P", "LA", "PA", "RGB", "RGBA", "CMYK", "YCbCr", "16 bits", "MPO"])
def test_an_image_of_any_mode_keeps_its_range_of_values(tmp_path, mode):
    from PIL import Image

    (tmp_path / "train" / "dog").mkdir(parents=True)
    gray = Image.fromarray(gradient(np.uint8, 255))
    if mode == "16 bits":
        content = saved(gradient(np.uint16, 65535), "PNG")
    elif mode == "MPO":
        content = saved(gray, "MPO", save_all=True, append_images=[gray.resize((30, 24))], quality=95)
    else:
        content = saved(gray.convert("RGB").convert(mode), "TIFF" if mode in {"CMYK", "YCbCr", "PA"} else "PNG")
    (tmp_path / "train" / "dog" / "a.png").write_bytes(content)
    columns = ImageFolder(str(tmp_path), "train", 1).evaluation(0).astype(float).mean(axis=(0, 2))
    np.testing.assert_allclose(columns, np.linspace(0, 255, 300)[38:262], atol=25)


def test_palettes_with_transparency_keep_their_colours(tmp_path):
    from PIL import Image

    (tmp_path / "train" / "dog").mkdir(parents=True)
    image = Image.fromarray(NOISE).quantize(16)
    image.save(tmp_path / "train" / "dog" / "a.png", transparency=bytes(range(16)))
    pixels = ImageFolder(str(tmp_path), "train", 1).evaluation(0)
    assert pixels.std() > 20


def test_classes_are_compared_by_name(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "set")
    (tmp_path / "set" / "val" / "n03").rename(tmp_path / "set" / "val" / "n00")
    with pytest.raises(DataError, match=r"set/train and .*set/val have different folders of classes: 'n00' is in one"):
        task(tmp_path / "set").build([Streams(0, 0)], "cpu")


def test_the_network_is_that_of_the_paper():
    assert ImageNet().dim() == 25_557_032
    assert ImageNet().steps_per_epoch() == 5005
