"""blr-a9a: its files, its potential in both forms, its truth, and the predictive."""

import dataclasses

import numpy as np
import pytest

from harness import DataError
from harness.contracts.data import problem as missing
from tasks.datasets import libsvm
from tasks.regression.a9a.task import FEATURES, A9a, held_out, predictive, signed_design
from tasks.regression.blr import laplace, stored

pytestmark = pytest.mark.numbers

needs_data = pytest.mark.skipif(
    missing(libsvm.A9A) is not None or missing(libsvm.A9A_TEST) is not None, reason="no a9a under BENCH_DATA"
)


@needs_data
def test_the_files_are_those_of_the_collection():
    covariates, labels = libsvm.load(libsvm.A9A, FEATURES)
    rows, positive = held_out()
    assert (covariates.shape, int((labels > 0).sum())) == ((32_561, 123), 7_841)
    assert (rows.shape, int(positive.sum())) == ((16_281, 124), 3_846)
    assert set(np.unique(covariates)) == {0.0, 1.0}
    assert covariates[0].nonzero()[0][:4].tolist() == [2, 10, 13, 18]
    assert not rows[:, 122].any()


def test_a_file_of_something_else_is_refused(tmp_path, monkeypatch):
    import hashlib

    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    for content in ("+1 3:1 x:1\n", "+1 124:1\n"):
        (tmp_path / "odd").write_text(content)
        digest = hashlib.sha256(content.encode()).hexdigest()
        odd = dataclasses.replace(libsvm.A9A, path="odd", size=len(content), sha256=digest)
        with pytest.raises(DataError, match="a9a"):
            libsvm.load(odd, FEATURES)


@needs_data
def test_the_truth_lies_about_the_mode():
    record = stored(A9a.record)
    mode, values, vectors = laplace(signed_design())
    assert record["hessian_eigenvalues"] == pytest.approx([values[0], values[-1]], rel=1e-9)
    assert record["rhat"] < 1.01
    assert min(record["ess_z"], record["ess_z2"]) > 10_000
    spread = np.sqrt(np.diag(vectors / values @ vectors.T))
    assert np.abs(np.array(record["mean"]) - mode).max() < 0.5 * spread.max()
    truth = A9a().truth()
    assert truth.sd == pytest.approx(spread, rel=0.1)
    along = np.sqrt((truth.directions @ truth.covariance * truth.directions).sum(axis=1))
    laplacian = np.sqrt(((truth.directions @ vectors) ** 2 / values).sum(axis=1))
    assert along == pytest.approx(laplacian, rel=0.1)


def test_the_predictive_is_the_mean_of_the_probabilities():
    rng = np.random.default_rng(0)
    rows, draws = rng.normal(size=(7, 3)), rng.normal(size=(250, 3))
    by_hand = [np.mean([1 / (1 + np.exp(-row @ draw)) for draw in draws]) for row in rows]
    assert predictive(rows, draws) == pytest.approx(by_hand)
