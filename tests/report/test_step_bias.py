"""The bias by the step size: its estimator, its interval against exact laws, and the report."""

import json

import numpy as np
import pytest
import torch
from safetensors.numpy import save
from scored import request, store, write_run
from support import run_loop

from harness import linear, registry, statistics
from harness.contracts import load
from harness.engine.loop import Loop
from harness.reporting.scores import load_groups
from harness.tasks import Streams
from plugins.checking.gaussian import GaussianTask
from plugins.checking.law import frozen, trajectory
from plugins.checking.sampler_law import law_of
from plugins.checking.samplers.whole import goes_by_energy
from plugins.samplers.baoab import BAOAB
from plugins.samplers.hmc import HMC
from plugins.samplers.obabo import OBABO
from plugins.samplers.psgld import PSGLD
from plugins.samplers.sghmc import SGHMC
from plugins.samplers.sgld import SGLD
from reports.step_bias import StepBias, combined, covers, estimate, gain, order, root_mean_square
from reports.step_bias_coverage import ENERGY, PAGE, SAVED, STAYS, kept, tables, with_tables
from reports.tables.leaderboard import Leaderboard
from reports.tables.step_bias import MEAN_VARIANCE, StepBiasReport

pytestmark = pytest.mark.numbers


def values(f, noise=0.0, separate=0.0, seeds=6):
    """f(h) at h = 1, 1/2, 1/4 by seed, with noise that the levels share and noise of each."""
    rng = np.random.default_rng(1)
    shared = noise * rng.standard_normal(seeds)
    return {m: f(1 / m) + shared + separate * rng.standard_normal(seeds) for m in (1, 2, 4)}


@pytest.mark.parametrize("f", [lambda h: 3 + h, lambda h: 3 - 2 * h**2, lambda h: 3 + 0.3 * h + 5 * h**2])
def test_terms_in_h_and_h_squared_are_estimated_exactly_whatever_the_shared_noise(f):
    for one in (values(f), values(f, noise=10.0)):
        estimated = estimate(one)
        assert estimated.bias == pytest.approx(f(1) - 3)
        assert estimated.low - 1e-9 <= f(1) - 3 <= estimated.high + 1e-9


@pytest.mark.parametrize("f", [lambda h: h**1.5, lambda h: h**3, lambda h: 1 / (1 - h / 2)])
def test_what_other_terms_leave_is_within_the_interval(f):
    limit = 1.0 if f(0) else 0.0
    estimated = estimate(values(f))
    assert estimated.bias != pytest.approx(f(1) - limit, rel=1e-3)
    assert estimated.low <= f(1) - limit <= estimated.high


def test_two_levels_take_the_bias_to_be_proportional_to_h():
    two = {m: v for m, v in values(lambda h: 3 + h).items() if m < 4}
    assert estimate(two).bias == pytest.approx(1)
    assert order(two) is None


@pytest.mark.parametrize("p", [1, 2])
def test_the_order_is_known_where_the_differences_show_it(p):
    middle, low, high = order(values(lambda h: h**p, separate=1e-3))
    assert low < p < high
    assert high - low < 0.1
    assert middle == pytest.approx(p, abs=0.05)
    assert order(values(lambda h: h**p, separate=10.0)) is None
    assert order(values(lambda h: 0 * h)) is None


def test_the_gain_is_that_of_shared_noise():
    rng = np.random.default_rng(0)
    shared, separate = rng.standard_normal(20_000), 0.1 * rng.standard_normal((2, 20_000))
    assert gain({1: shared + separate[0], 2: shared + separate[1]}) == pytest.approx(1.01 / 0.01, rel=0.1)
    assert gain({1: separate[0], 2: separate[1]}) == pytest.approx(1, rel=0.1)


def test_noise_adds_nothing_to_the_root_mean_square():
    rng = np.random.default_rng(0)
    bias = np.where(np.arange(2000) % 2, 0.3, -0.3)

    def drawn(scale):
        return {m: scale * bias / m + 0.1 * rng.standard_normal((6, 2000)) for m in (1, 2, 4)}

    estimated, nothing = root_mean_square(drawn(1.0)), root_mean_square(drawn(0.0))
    assert estimated.bias == pytest.approx(0.3, rel=0.05)
    assert estimated.low < 0.3 < estimated.high
    assert nothing.low == 0
    assert nothing.bias < 0.03
    assert np.sqrt(np.square(combined(drawn(0.0)).mean(axis=0)).mean()) > 0.1  # the plain one is all noise
    assert root_mean_square({m: v[:2] for m, v in drawn(1.0).items()}) is None


CURVATURES = (0.25, 0.5, 1.0, 2.0) * 6
SEEDS, REPEATS, CHAINS = 5, 12, 2
STEPS, BURN_IN = 160, 60
HELD = linear.with_methods(frozen(PSGLD()), init=lambda _, theta, *__: {"V": torch.ones_like(theta)})
CASES = {
    "sgld": (SGLD(), 0.4, 0.0), "sgld, noisy": (SGLD(), 0.3, 2.0), "sghmc": (SGHMC(friction=0.3), 0.3, 0.0),
    "obabo": (OBABO(friction=0.4), 0.7, 0.0), "baoab": (BAOAB(friction=0.4), 0.7, 0.0),
    "psgld, V = 1": (HELD, 0.4, 1.0), "hmc": (HMC(), 0.3, 0.0),
}  # fmt: skip
"""A sampler, h times the largest curvature, and the variance of its gradients' noise."""


def true_bias(sampler, h, variance):
    """Of the mean of lambda theta^2 over the coordinates, T = 1: that of the exact law; a Metropolis test has none."""
    step = linear.derive(sampler, h, 1.0, CURVATURES)
    if not step.linear:
        assert isinstance(sampler, HMC)
        return 0.0
    return float(np.diag(step.stationary(variance))[: len(CURVATURES)] @ CURVATURES / len(CURVATURES) - 1)


@pytest.fixture(scope="module")
def coverage():
    """The share of intervals that cover the true bias, and that of estimates of half of it, by sampler."""
    return {name: covered(*case) for name, case in CASES.items()}


def covered(sampler, x, variance):
    h = x / max(CURVATURES)
    task = GaussianTask(curvatures=CURVATURES, variance=variance)
    streams = [Streams(seed, chain, ("step bias",)) for seed in range(SEEDS * REPEATS) for chain in range(CHAINS)]
    averages = {}
    for m in (1, 2, 4):
        path = trajectory(np.full(STEPS + BURN_IN, h), 1.0, BURN_IN).divided(m)
        loop = run_loop(Loop(task, sampler, path, streams, CHAINS))
        squares = torch.stack([run.observer.draws().square() for run in loop.runs])
        averages[m] = (squares * torch.tensor(CURVATURES)).mean((1, 2, 3)).numpy()
    truth = true_bias(sampler, h, variance)
    estimated = [estimate({m: v[k::REPEATS] for m, v in averages.items()}) for k in range(REPEATS)]
    return np.mean([one.low <= truth <= one.high for one in estimated]), truth, np.mean([one.bias for one in estimated])


@pytest.mark.slow
def test_the_interval_covers_the_bias_of_exact_laws(coverage):
    shares = [share for share, _, _ in coverage.values()]
    assert min(shares) >= 0.75, coverage
    assert np.mean(shares) >= 0.9, coverage


def test_the_mean_estimate_is_the_bias_where_there_is_one(coverage):
    """Without it, intervals that are far too wide would pass."""
    biased = {name: (truth, estimated) for name, (_, truth, estimated) in coverage.items() if abs(truth) > 0.02}
    assert set(biased) >= {"sgld", "sgld, noisy", "sghmc", "obabo", "psgld, V = 1"}
    for name, (truth, estimated) in biased.items():
        assert estimated == pytest.approx(truth, rel=0.2), name


@pytest.mark.parametrize("tests", [1, 20])
def test_an_estimate_covers_what_is_within_both_half_widths_by_their_squares(tests):
    """Of errors about 0: the half widths are 3 and 4, and so together 5."""
    errors = np.array([-1.0, 0.0, 1.0])
    half = statistics.mean_interval(errors, 1 - 0.05 / tests).high
    estimated = {sign * off: StepBias(0.0, sign * off, sign * off - 3, sign * off + 3, None, None, 5)
                 for off in (4.99, 5.01) for sign in (-1, 1)}  # fmt: skip
    agree = {bias: covers(one, errors * 4 / half, tests) for bias, one in estimated.items()}
    assert agree == {bias: abs(bias) < 5 for bias in estimated}


def write_levels(results, f, metric="nll", seeds=5, levels=(1, 2, 4), values=None, **more):
    """Runs of a row and of its parts, whose value of a metric is f(h) and a number of each seed."""
    for seed in range(seeds):
        for m in levels:
            lengths = {"steps": 1000 * m, "burn_in": 100 * m, "thin": m}
            counted = {"substeps": m} if m > 1 else {}
            write_run(
                results, seed=seed, metrics={metric: f(1 / m) + seed}, passes=500.0 * m, **lengths, **counted,
                **(values(seed, m) if values else {}), **more,
            )  # fmt: skip


class Halved(SGLD):
    """A sampler that declares a limit."""

    def limit_bias(self):
        return 0.5


def table(result):
    return {(row["label"], row["shown_function"]): row for one in result.tables for row in one.rows}


def test_a_row_and_its_runs_at_smaller_steps_are_one_row_of_the_report(tmp_path):
    write_levels(tmp_path, lambda h: 2 + 0.5 * h)
    write_levels(tmp_path, lambda h: 2 + h**2, method="msgld")
    write_run(tmp_path, method="csgld", metrics={"nll": 1.0})  # has no runs at smaller steps
    result = StepBiasReport().build(store(tmp_path), request({"msgld": f"{__name__}:Halved"}))
    rows = table(result)
    assert {label for label, _ in rows} == {"sgld", "msgld"}
    row = rows["sgld", "NLL (1)"]
    assert row["bias"] == pytest.approx(0.5)
    assert (row["passes"], row["seeds"], row["order"]) == (3500, 5, pytest.approx(1))
    assert rows["msgld", "NLL (1)"]["order"] == pytest.approx(2)
    (note,) = result.notes
    assert note.startswith("msgld: as h -> 0 its sampler has 0.5 times the target's variance")


def test_runs_at_smaller_steps_are_no_rows_of_other_reports(tmp_path):
    write_levels(tmp_path, lambda h: 2 + 0.5 * h)
    asked, filled = request(), store(tmp_path)
    assert len(load_groups(filled, asked)) == 1
    assert len(load_groups(filled, asked, substeps=True)) == 3
    (leaders,) = Leaderboard().build(filled, request()).tables
    (row,) = leaders.rows
    assert row["estimated_bias"].startswith("0.500 [")
    assert "estimated_bias" in [column.key for column in leaders.columns]
    ranked = [one for one in Leaderboard().build(filled, request()).records if one["ranked_by"]]
    assert ranked[0]["estimated_bias"] == pytest.approx(0.5)


def test_without_these_runs_the_leaderboard_has_no_such_column(tmp_path):
    write_run(tmp_path, metrics={"nll": 1.0})
    (leaders,) = Leaderboard().build(store(tmp_path), request()).tables
    assert "estimated_bias" not in leaders.rows[0]
    assert "--sweep run.substeps=1,2,4" in StepBiasReport().build(store(tmp_path), request()).notes[0]


def test_seeds_count_that_are_finished_at_every_step_size(tmp_path):
    write_levels(tmp_path, lambda h: h, seeds=3)
    write_levels(tmp_path, lambda h: h, levels=(1,), seeds=4, task="blr-heart")
    for m, seeds in ((2, 4), (4, 1)):
        write_levels(tmp_path, lambda h: h, levels=(m,), seeds=seeds, task="blr-heart")
    result = StepBiasReport().build(store(tmp_path), request(tasks=("blr-heart",)))
    assert {row["seeds"] for row in result.records} == {1}
    assert any("one seed gives no interval" in note for note in result.notes)


def test_two_levels_say_that_they_assume_an_order(tmp_path):
    write_levels(tmp_path, lambda h: h, levels=(1, 2))
    result = StepBiasReport().build(store(tmp_path), request())
    assert any("proportional to h" in note for note in result.notes)
    assert table(result)["sgld", "NLL (1)"]["bias"] == pytest.approx(1)


MEANS, SQUARES = np.array([0.1, -0.4, 0.2]), np.array([0.3, 0.2, -0.6])


def errors_of(shift=0.0):
    """Errors along three directions; those of z^2 fall with h^2, and those of quantiles are to be left out."""

    def stored(seed, m):
        errors = np.concatenate([MEANS / m, SQUARES / m**2, np.full(6, 9.0)]) + 0.01 * seed + shift
        chains = np.stack([errors - 1, errors + 1])
        numbered = {"joint_error": chains, "chain_error_z": chains[:, :2], "distribution_error": np.full((1, 6), 9.0)}
        return {"curves": {name: (np.arange(y.shape[1], dtype=float), y) for name, y in numbered.items()}, "chains": 2}

    return stored


@pytest.mark.parametrize(("shift", "covering"), [(0.0, True), (1.0, False)])
def test_errors_of_other_seeds_stand_beside_the_estimate(tmp_path, shift, covering):
    write_levels(tmp_path, lambda h: h, values=errors_of())
    for seed in (100, 101, 102):
        write_run(
            tmp_path, seed=seed, metrics={"nll": 1.0}, passes=500.0, steps=1000, burn_in=100, thin=1,
            **errors_of(shift)(seed - 100, 1),
        )  # fmt: skip
    result = StepBiasReport().build(store(tmp_path), request())
    (row,) = [record for record in result.records if record["function"] == "variance, mean"]
    assert row["true"] == pytest.approx(0.25 + 0.01 + shift)
    assert row["true_low"] < row["true"] < row["true_high"]
    assert row["seeds"] == 5
    assert row["covers"] is covering
    assert "error of other seeds" in [column.header for column in result.tables[0].columns]


def test_runs_with_eight_substeps_give_the_row_at_half_the_step_too(tmp_path):
    write_levels(tmp_path, lambda h: 2 + h, levels=(1, 2, 4, 8))
    rows = table(StepBiasReport().build(store(tmp_path), request()))
    assert {label: row["bias"] for (label, _), row in rows.items()} == {
        "sgld": pytest.approx(1), "sgld, h/2": pytest.approx(0.5)
    }  # fmt: skip


def test_the_page_has_the_shares_and_the_pairs_outside():
    base = {
        "task": "banana",
        "protocol": "p",
        "substeps": 1,
        "method": "sgld",
        "bias_low": 0.0,
        "bias_high": 1.0,
        "true_low": 0.0,
    }
    base |= {"true_high": 1.0, "bias": 0.5}
    pairs = kept([
        base | {"label": "sgld", "function": MEAN_VARIANCE, "true": 0.4, "covers": True},
        base | {"label": "sgld, h/2", "substeps": 2, "function": MEAN_VARIANCE, "true": 4.0, "covers": False},
        base | {"label": "sgld", "function": "mean, direction 0", "true": 0.4, "covers": True},
        base | {"label": "hmc", "function": MEAN_VARIANCE, "true": None, "covers": None},
        base | {"method": "resgld", "label": "resgld", "function": MEAN_VARIANCE, "true": 4.0, "covers": False},
    ])  # fmt: skip
    shares, outside = tables(pairs)
    counted = {"h": "1 of 1", "half": "0 of 1", "both": "1 of 2", "all": "2 of 3"}
    staying = {"h": "0 of 1", "half": "0 of 0", "both": "0 of 1", "all": "0 of 1"}
    assert shares.rows == [
        {"task": "banana"} | counted, {"task": "all"} | counted,
        {"task": "all, of samplers with a bias that stays"} | staying,
    ]  # fmt: skip
    assert [(row["label"], row["stays"]) for row in outside.rows] == [("sgld, h/2", "-"), ("resgld", STAYS["resgld"])]


def test_the_samplers_with_a_bias_that_stays_are_those_that_say_so_or_go_by_energies():
    methods = {record["method"] for record in json.loads(SAVED.read_text(encoding="utf-8"))}
    samplers = {name: load(registry().find("samplers", name).target)() for name in methods}
    assert {name for name, one in samplers.items() if goes_by_energy(one)} == {n for n in STAYS if STAYS[n] == ENERGY}
    assert {name for name, one in samplers.items() if law_of(one).noisy_variance} == {"samadams"}
    assert {one.limit_bias() for one in samplers.values()} == {1.0}


def test_the_published_page_is_that_of_the_published_numbers():
    page = PAGE.read_text(encoding="utf-8")
    assert with_tables(page, json.loads(SAVED.read_text(encoding="utf-8"))) == page


def test_the_moments_of_a_task_with_a_truth_are_its_functions(tmp_path):
    write_levels(tmp_path, lambda h: h, values=errors_of())
    rows = table(StepBiasReport().build(store(tmp_path), request()))
    worst = {function: row["bias"] for (_, function), row in rows.items()}
    assert worst == {
        "mean, worst of 3 (sd)": pytest.approx(-0.4), "variance, worst of 3 (sd)": pytest.approx(-0.6),
        "variance, mean (sd)": pytest.approx(0.25),
    }  # fmt: skip
    assert rows["sgld", "variance, worst of 3 (sd)"]["order"] == pytest.approx(2)


def test_predictions_are_compared_row_by_row(tmp_path):
    rng = np.random.default_rng(0)
    bias = np.where(np.arange(400) % 2, 0.05, -0.05).reshape(200, 2)

    def stored(_, m):
        content = {"probabilities": (0.5 + bias / m + 0.001 * rng.standard_normal((200, 2))).astype(np.float32)}
        return {"files": {"arrays.safetensors": save(content)}}

    write_levels(tmp_path, lambda h: h, values=stored)
    row = table(StepBiasReport().build(store(tmp_path), request()))["sgld", "predictions, root mean square (1)"]
    assert row["bias"] == pytest.approx(0.05, rel=0.05)
    assert row["shown"] == "-"


def test_a_metric_may_be_asked_for(tmp_path):
    write_levels(tmp_path, lambda h: h)
    result = StepBiasReport().build(store(tmp_path), request(metric="nll"))
    assert [row["function"] for row in result.records] == ["NLL"]
