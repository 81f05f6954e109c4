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
from tasks.datasets.imagefolder import crop
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


def test_an_image_that_cannot_be_read_is_named(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "set")
    (tmp_path / "set" / "val" / "n02" / "0.JPEG").write_bytes(b"no image")
    problem = task(tmp_path / "set").build([Streams(0, 0)], "cpu")
    with pytest.raises(DataError, match=r"n02/0\.JPEG is no image"):
        list(problem.predict(problem.initial(), slice(0, 1), "test"))


def test_the_network_is_that_of_the_paper():
    assert ImageNet().dim() == 25_557_032
    assert ImageNet().steps_per_epoch() == 5005
