"""idx files: what is in them, and what is refused."""

import gzip
from dataclasses import replace

import numpy as np
import pytest
from torchvision.datasets.mnist import read_image_file

from harness import DataError
from harness.contracts.data import digest, locate, problem
from tasks.datasets import idx

IMAGES = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
CONTENT = b"\0\0\x08\x03" + np.array([2, 3, 4], dtype=">u4").tobytes() + IMAGES.tobytes()


def test_numbers_come_in_their_shape():
    assert np.array_equal(idx.parse(CONTENT), IMAGES)


@pytest.mark.parametrize("content", [b"", b"\0\0\x08", b"GIF89a", CONTENT[:-1], CONTENT[:9], CONTENT + b"\0"])
def test_what_is_no_whole_idx_file_is_refused(content):
    with pytest.raises(ValueError, match="idx"):
        idx.parse(content)


@pytest.mark.parametrize(
    "content", [b"no gzip", gzip.compress(CONTENT)[:-9], gzip.compress(b"GIF89a")], ids=["no gzip", "cut", "no IDX"]
)
def test_a_file_that_is_not_what_it_says_is_a_data_error(tmp_path, monkeypatch, content):
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    path = tmp_path / idx.KMNIST_TEST.path
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(DataError, match="kmnist"):
        idx.load(replace(idx.KMNIST_TEST, sha256=digest(path), size=len(content)))


@pytest.mark.data
def test_the_real_test_digits_are_as_torchvision_reads_them(tmp_path):
    images, classes = idx.MNIST_TEST
    wrong = problem(images) or problem(classes)
    if wrong:
        pytest.skip(f"{images.path} is {wrong} under BENCH_DATA")
    plain = tmp_path / "images"
    plain.write_bytes(gzip.decompress(locate(images).read_bytes()))
    assert np.array_equal(idx.load(images), read_image_file(str(plain)).numpy())
    assert np.bincount(idx.load(classes)).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
