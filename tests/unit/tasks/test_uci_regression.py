"""Small networks on UCI regression sets: the data, the likelihood, the scores of predictions, and references."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.stats import norm

from harness import DataError, UsageError
from harness.contracts.data import problem as missing
from harness.contracts.randomness import Streams
from harness.contracts.task import Cost
from harness.tasks import TUNING_SEED, Reference, Rows
from plugins.checking.law import trajectory
from plugins.checking.task_laws import law_prior_counted_once
from tasks.datasets import uci
from tasks.regression.uci import observer
from tasks.regression.uci.bde import Bde
from tasks.regression.uci.observer import FUNCTION_METRICS, REGRESSION_METRICS, RegressionObserver
from tasks.regression.uci.smile import cuts, standardised
from tasks.regression.uci.task import Airfoil, Bikesharing, Concrete, Energy, PowerPlant, Protein, Wine, Yacht

pytestmark = pytest.mark.numbers

SETS = (Airfoil, Bikesharing, Concrete, Energy, PowerPlant, Protein, Wine, Yacht)
absent = [cls.datasets[0].path for cls in SETS if missing(cls.datasets[0]) is not None]
needs_data = pytest.mark.skipif(bool(absent), reason=f"not under BENCH_DATA: {', '.join(absent)}")
STREAMS = [Streams(0, c) for c in range(2)]


@needs_data
@pytest.mark.parametrize(
    ("task", "sizes", "dim"),
    [
        (Airfoil(), (1052, 150, 301), 658),
        (Energy(), (537, 77, 154), 706),
        (Bikesharing(), (12165, 1738, 3476), 754),
        (Concrete(), (721, 102, 207), 706),
        (PowerPlant(), (6697, 957, 1914), 642),
        (Protein(), (32010, 4574, 9146), 722),
        (Wine(), (1119, 160, 320), 754),
        (Yacht(), (215, 31, 62), 674),
    ],
)
def test_parts_are_cut_from_permuted_rows_that_are_scaled_together(task, sizes, dim):
    parts = [task.arrays(part) for part in ("train", "validation", "test")]
    assert tuple(len(part["y"]) for part in parts) == sizes
    assert (task.terms(), task.dim(), task.layout().dim) == (sizes[0], dim, dim)
    assert "layout" in task.provides
    *layers, noise = task.layout().blocks
    assert (layers[-1].name, noise.name, noise.shape) == ("bias4", "log_sigma", (1,))
    table = np.concatenate([np.column_stack([part["x"], part["y"]]) for part in parts])
    assert np.abs(table.mean(axis=0)).max() < 1e-12
    assert table.std(axis=0) == pytest.approx(np.ones(table.shape[1]))
    raw = uci.table(task.datasets[0])
    order = np.random.RandomState(1).permutation(len(raw))
    assert table[:, -1] == pytest.approx((raw[order, -1] - raw[:, -1].mean()) / raw[:, -1].std())
    other = standardised(task.datasets[0], 2)
    assert (table != other).any()
    assert np.sort(table[:, -1]) == pytest.approx(np.sort(other[:, -1]))


@pytest.mark.parametrize(
    ("task", "passes"), [(Airfoil, (24.3, 200)), (Energy, (47.7, 200)), (Protein, (0.8, 8)), (Yacht, (29.8, 200))]
)
def test_smile_starts_from_200_passes_of_adam_or_half_a_short_budget(task, passes):
    protocol = task.protocols[0]
    per_pass = task().terms() / task().batch
    assert protocol.settings == {"run.warm_start": "adam", "run.warm_passes": 200, "run.warm_step_size": 0.01}
    assert tuple(protocol.budget_settings[name]["run.warm_passes"] for name in ("smoke", "quick")) == passes
    assert protocol.budgets["paper"] == 120_000 + int(200 * per_pass)


@needs_data
def test_bikesharing_has_eleven_features_without_the_parts_of_the_target():
    table = uci.table(uci.BIKESHARING)
    assert table[0].tolist() == [0, 1, 0, 0, 6, 0, 1, 0.24, 0.2879, 0.81, 0, 16]
    assert table[:, -1].sum() == 3_292_679


def test_the_cuts_are_those_of_the_source():
    assert [cuts(n) for n in (1503, 768, 17379)] == [(1052, 1202), (537, 614), (12165, 13903)]


def test_a_file_of_something_else_is_refused(tmp_path, monkeypatch):
    import dataclasses
    import hashlib

    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    content = "1 2 x\n"
    (tmp_path / "odd").write_text(content)
    digest = hashlib.sha256(content.encode()).hexdigest()
    odd = dataclasses.replace(uci.AIRFOIL, path="odd", size=len(content), sha256=digest)
    with pytest.raises(DataError, match="airfoil"):
        uci.table(odd)


def test_the_likelihood_is_normal_with_a_sampled_sigma():
    task = Airfoil()
    rng = torch.Generator().manual_seed(0)
    theta = torch.stack([task.start(rng) for _ in range(2)])
    theta[:, -1] = torch.tensor([-1.2, 0.3])
    x, y = torch.randn((1, 5, 5), generator=rng, dtype=torch.float64), torch.randn(5, generator=rng).double()
    rows = Rows({"x": x[0], "y": y, "present": torch.ones(5).double()}, None)
    h, at = x.expand(2, -1, -1), 0
    for into, out in ((5, 16), (16, 16), (16, 16), (16, 1)):
        weights = theta[:, at : at + into * out].view(2, out, into)
        biases = theta[:, at + into * out : at + into * out + out]
        h = h @ weights.mT + biases[:, None]
        h = h.relu() if out > 1 else h
        at += into * out + out
    expected = norm.logpdf(y, h[..., 0], theta[:, -1:].exp())
    assert task.log_likelihood(theta, rows).numpy() == pytest.approx(expected)


@needs_data
def test_a_prior_in_every_row_is_found():
    class Wrong(Energy):
        def log_likelihood(self, theta, rows):
            return super().log_likelihood(theta, rows) - self.prior_precision / 2 * theta.square().sum(1, keepdim=True)

    law_prior_counted_once(Energy())
    with pytest.raises(AssertionError, match="prior"):
        law_prior_counted_once(Wrong())


@needs_data
def test_tuning_is_scored_on_the_validation_rows_without_a_reference():
    task = Airfoil()
    object.__setattr__(task, "stored_reference", reference(301))
    plain, tuned = (task.build([Streams(seed, 0)], "cpu") for seed in (0, TUNING_SEED))
    assert (len(plain.scored["y"]), plain.function_reference()) == (301, task.stored_reference)
    assert (len(tuned.scored["y"]), tuned.function_reference()) == (150, None)
    assert torch.equal(plain.arrays["y"], tuned.arrays["y"])


# --- scores of predictions ------------------------------------------------------------------------------------------

LEVELS = np.array([0.05, 0.5, 0.95])


def record(size=4, **changed):
    fields = {
        "task": "made-up", "chains": 16, "draws": 100, "acceptance": 0.8, "seconds": 7200,
        "command": "bench truth made-up",
        "mean": [0.1 * k for k in range(size)], "sd": [0.5] * size, "z4": [3.5] * size, "rhat": [1.01] * size,
        "mean_error": [0.01] * size, "levels": LEVELS.tolist(),
        "quantiles": [[0.1 * k - 0.8, 0.1 * k, 0.1 * k + 0.8] for k in range(size)],
    }  # fmt: skip
    return {**fields, **changed}


def reference(size=4, **changed):
    return Reference.of_record(record(size, **changed))


def observer_of(known=None, kept=6, chains=2):
    """An observer of f(x) = theta_1 x on four rows, log sigma = theta_2."""
    x, y = (
        torch.arange(1.0, 5.0, dtype=torch.float64)[:, None],
        torch.tensor([0.3, -1.0, 2.0, 0.5], dtype=torch.float64),
    )
    task = SimpleNamespace(predicted=lambda theta, rows: (theta[:, :1] * rows[..., 0], theta[:, -1:]))
    problem = SimpleNamespace(scored={"x": x, "y": y}, task=task, function_reference=lambda: known)
    path = trajectory(np.full(kept, 1e-3), 1.0)
    return RegressionObserver(problem, chains, path, Cost(0.0, 1.0)), x.numpy()[:, 0], y.numpy()


def draws_and_weights():
    rng = np.random.default_rng(3)
    return rng.normal(size=(6, 2, 2)) * [0.4, 0.2], rng.uniform(0.2, 2, size=(6, 2))


def outcome(known=None):
    draws, weights = draws_and_weights()
    seen, x, y = observer_of(known)
    seen.observe(torch.from_numpy(draws), torch.from_numpy(weights), np.arange(1, 7))
    return seen.outcome(), x, y


def test_scores_are_those_of_the_weighted_mixture():
    (scored, x, y), (draws, weights) = outcome(), draws_and_weights()
    f, sigma = draws[..., :1] * x, np.exp(draws[..., 1:])
    share = (weights / weights.sum())[..., None]
    mean = (share * f).sum((0, 1))
    variance = (share * (f**2 + sigma**2)).sum((0, 1)) - mean**2
    below = (share * norm.cdf(y, f, sigma)).sum((0, 1))
    inside = [(np.abs(below - 0.5) <= p / 2).mean() for p in np.arange(1, 20) / 20]
    assert scored.metrics == pytest.approx({
        "lppd": np.log((share * norm.pdf(y, f, sigma)).sum((0, 1))).mean(),
        "rmse": np.sqrt(((mean - y) ** 2).mean()),
        "nll": -norm.logpdf(y, mean, np.sqrt(variance)).mean(),
        "coverage50": inside[9],
        "coverage90": inside[17],
        "calibration_error": np.abs(np.array(inside) - np.arange(1, 20) / 20).mean(),
        "interval_width": (norm.ppf(0.95) - norm.ppf(0.05)) * np.sqrt(variance).mean(),
    })  # fmt: skip
    assert set(scored.metrics) == {metric.name for metric in REGRESSION_METRICS}
    assert scored.curves["lppd"][1][0, -1] == pytest.approx(scored.metrics["lppd"])
    assert scored.curves["rmse"][1][0, -1] == pytest.approx(scored.metrics["rmse"])


@pytest.mark.parametrize("cached", [1, 24, 2**16])
@pytest.mark.parametrize("blocks", [[6], [1, 2, 3], [5, 1]])
def test_how_draws_are_cut_into_blocks_and_portions_changes_no_bit(monkeypatch, cached, blocks):
    monkeypatch.setattr(observer, "CACHED", cached)
    draws, weights = (torch.from_numpy(part) for part in draws_and_weights())
    weights[2, 0] = 0.0
    known = reference()
    seen, *_ = observer_of(known)
    for theta, weight in zip(draws.split(blocks), weights.split(blocks), strict=True):
        seen.observe(theta, weight, np.arange(len(theta)))
    curves = seen.outcome().curves
    for point, count in enumerate(seen.grid):
        first, *_ = observer_of(known, kept=count)
        first.observe(draws[:count], weights[:count], np.arange(count))
        expected = first.outcome()
        for name in ("rmse", "lppd"):
            assert curves[name][1][0, point] == expected.metrics[name]
    assert (curves["joint_error"][1] == expected.curves["joint_error"][1]).all()


def test_of_one_draw_lppd_is_minus_nll():
    seen, *_ = observer_of(kept=1, chains=1)
    seen.observe(torch.tensor([[[0.3, -0.4]]]).double(), torch.ones((1, 1)).double(), np.array([1]))
    metrics = seen.outcome().metrics
    assert metrics["lppd"] == pytest.approx(-metrics["nll"])
    assert metrics["interval_width"] == pytest.approx(2 * norm.ppf(0.95) * math.exp(-0.4))


def test_errors_against_a_reference_are_those_of_the_averages():
    known = reference()
    (scored, x, _), (draws, weights) = outcome(known), draws_and_weights()
    plain = outcome()[0]
    f, share = draws[..., :1] * x, (weights / weights.sum(axis=0))[..., None]
    z = (f - known.mean) / known.sd
    chances = LEVELS[:, None, None, None]
    shares = (share * (f < known.quantiles.T[:, None, None])).sum(1)
    errors = [(share * z).sum(0), (share * (z**2 - 1)).sum(0) / np.sqrt(2.5)]
    errors += list((shares - chances[:, 0]) / np.sqrt(chances[:, 0] * (1 - chances[:, 0])))
    assert scored.curves["joint_error"][1] == pytest.approx(np.concatenate(errors, axis=1))
    assert scored.metrics["joint_error"] == pytest.approx((np.concatenate(errors, axis=1) ** 2).mean(0).max())
    whole = (weights / weights.sum())[..., None]
    mean = (whole * f).sum((0, 1))
    sd = np.sqrt((whole * f**2).sum((0, 1)) - mean**2)
    below = (whole * (f < known.quantiles.T[:, None, None])).sum((1, 2))
    assert scored.metrics["function_mean_error"] == pytest.approx(np.sqrt((((mean - known.mean) / 0.5) ** 2).mean()))
    assert scored.metrics["function_sd_error"] == pytest.approx(np.sqrt(((sd / 0.5 - 1) ** 2).mean()))
    assert scored.metrics["function_quantile_error"] == pytest.approx(np.sqrt(((below - LEVELS[:, None]) ** 2).mean()))
    assert set(scored.metrics) == {metric.name for metric in (*REGRESSION_METRICS, *FUNCTION_METRICS)}
    assert {name: scored.metrics[name] for name in plain.metrics} == pytest.approx(plain.metrics)


def test_a_lost_chain_leaves_no_score_and_no_draw_leaves_nothing():
    seen, *_ = observer_of(reference())
    assert not seen.outcome().metrics
    draws = torch.zeros((2, 2, 2)).double()
    draws[1, 0] = math.nan
    seen.observe(draws, torch.ones((2, 2)).double(), np.array([1, 2]))
    scored = seen.outcome()
    assert set(scored.metrics.values()) == {None}
    assert not np.isfinite(scored.curves["joint_error"][1][0]).any()
    assert np.isfinite(scored.curves["joint_error"][1][1]).all()


# --- references ------------------------------------------------------------------------------------------------------


def test_a_reference_is_accepted_by_r_hat_and_standard_errors():
    assert (reference().refused, reference().kind) == ("", "function space")
    assert "2 hours" in reference().how
    many = [1.01] * 200
    assert not reference(200, rhat=[*many[2:], 1.2, 1.2]).refused
    apart = reference(200, rhat=[*many[3:], 1.2, 1.2, 1.2])
    assert apart.kind == "none"
    assert "98.5%" in apart.refused
    assert "standard error" in reference(mean_error=[0.01, 0.01, 0.01, 0.06]).refused
    assert reference(rhat=[math.nan] * 4).refused


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"sd": [0.5] * 3}, r"sd is of shape \(3,\), not \(4,\)"),
        ({"quantiles": [[0.1, 0.2]] * 4}, "quantiles"),
        ({"mean": [0.1, math.nan, 0.2, 0.3]}, "mean is not finite"),
        ({"acceptance": None}, "damaged"),
        ({"rhat": "high"}, "damaged"),
    ],
)
def test_a_bad_reference_is_named(changed, told):
    with pytest.raises(DataError, match=told):
        reference(**changed)
    with pytest.raises(DataError, match="of other rows"):
        Reference.of_record(record(4), 5)


@needs_data
def test_a_refused_reference_is_not_used(tmp_path):
    class Apart(Airfoil):
        record = tmp_path / "apart.json"

    for rhat, used in ((1.01, True), (1.5, False)):
        Apart.record.write_text(json.dumps(record(301, rhat=[rhat] * 301)))
        assert (Apart().build(STREAMS, "cpu").function_reference() is not None) is used
        assert Apart().function_reference() is not None
    assert Apart(data_seed=2).function_reference() is None


# --- the variant of bde ----------------------------------------------------------------------------------------------


def bde(cls=Airfoil, **changed):
    return cls(**{**Bde.protocols[0].task_settings(), **changed})


@needs_data
@pytest.mark.parametrize(("cls", "rows", "dim"), [(Airfoil, (1202, 301), 946), (Bikesharing, (13903, 3476), 1058)])
def test_bde_scales_by_its_training_rows_and_draws_the_tests_first(cls, rows, dim):
    task = bde(cls)
    train, test = (task.arrays(part) for part in ("train", "test"))
    assert (len(train["y"]), len(test["y"]), task.terms(), task.dim()) == (*rows, rows[0], dim)
    for columns in (train["x"], train["y"][:, None]):
        assert np.abs(columns.mean(axis=0)).max() < 1e-12
        assert columns.std(axis=0) == pytest.approx(np.ones(columns.shape[1]))
    assert np.abs(test["x"].mean(axis=0)).max() > 1e-3
    order = np.random.RandomState(0).permutation(task.shape[0])  # sklearn.model_selection.train_test_split
    raw = uci.table(cls.datasets[0], cls.columns)[:, -1]
    kept = raw[order[rows[1] :]]
    assert test["y"] == pytest.approx((raw[order[: rows[1]]] - kept.mean()) / kept.std())


def test_bde_predicts_sigma_and_its_gradient_is_that_of_its_likelihood():
    task = bde()
    rng = torch.Generator().manual_seed(0)
    theta = torch.stack([task.start(rng) for _ in range(2)]).requires_grad_()
    x, y = torch.randn((7, 5), generator=rng).double(), torch.randn(7, generator=rng).double()
    rows = Rows({"x": x, "y": y, "present": torch.tensor([1.0] * 6 + [0.0]).double()}, None)
    each, gradient = task.value_and_grad(theta.detach(), rows)
    out = task.network.logits(theta, rows["x"])
    sigma = torch.log1p(out[..., 1].exp()) + 1e-6
    expected = torch.distributions.Normal(out[..., 0], sigma).log_prob(y)
    assert torch.allclose(each, expected)
    assert torch.allclose(each, task.log_likelihood(theta, rows))
    (automatic,) = torch.autograd.grad((expected * rows["present"]).sum(), theta)
    assert torch.allclose(gradient, automatic)
    assert torch.allclose(task.predicted(theta, rows["x"])[1], sigma.log())


def test_bde_starts_at_normal_weights_and_no_bias():
    task = bde()
    rng = torch.Generator().manual_seed(1)
    layers = task.network.layers(torch.stack([task.start(rng) for _ in range(200)]))
    for weights, biases in layers:
        assert weights.std().item() == pytest.approx(weights.shape[2] ** -0.5, rel=0.05)
        assert not biases.any()


@needs_data
def test_bde_is_tuned_on_training_rows_that_are_held_out():
    task = bde()
    plain, tuned = (task.build([Streams(seed, 0)], "cpu") for seed in (0, TUNING_SEED))
    train = task.arrays("train")["y"]
    assert torch.equal(plain.scored["y"], torch.from_numpy(task.arrays("test")["y"]).float())
    assert torch.equal(tuned.scored["y"], torch.from_numpy(train[9::10]).float())


@needs_data
def test_widths_are_a_setting_that_leaves_the_default_alone():
    small = Airfoil(hidden="4", variant="smile")
    assert (small.dim(), small.curvature()) == (5 * 4 + 4 + 4 + 1 + 1, None)
    assert Airfoil().curvature() == Airfoil.widest
    for wrong in ("", "0", "16-", "16,16", "-4", "4" * 9):
        with pytest.raises(UsageError, match="hidden"):
            Airfoil(hidden=wrong)


@needs_data
def test_a_predicted_sigma_is_scored_row_by_row():
    task = bde()
    built = task.build(STREAMS, "cpu")
    seen = RegressionObserver(built, 2, trajectory(np.full(3, 1e-3), 1.0), Cost(0.0, 1.0))
    draws = torch.stack([built.initial() for _ in range(3)]) * torch.tensor([1.0, 0.9, 1.1])[:, None, None]
    seen.observe(draws, torch.ones((3, 2)), np.arange(1, 4))
    f, log_sigma = (
        np.stack([task.predicted(theta, built.scored["x"])[k].double() for theta in draws]) for k in range(2)
    )
    y = built.scored["y"].double().numpy()
    mean, variance = f.mean((0, 1)), (f**2 + np.exp(2 * log_sigma)).mean((0, 1)) - f.mean((0, 1)) ** 2
    metrics = seen.outcome().metrics
    assert metrics["nll"] == pytest.approx(-norm.logpdf(y, mean, np.sqrt(variance)).mean(), rel=1e-6)
    assert metrics["lppd"] == pytest.approx(np.log(norm.pdf(y, f, np.exp(log_sigma)).mean((0, 1))).mean(), rel=1e-6)
