"""The distances of whole distributions that tasks report: exact draws score 0 on average, wrong ones do not."""

import functools

import numpy as np
import pytest
import torch
from support import make_loop, run_loop

from harness.contracts.data import problem as problem_of
from harness.contracts.density import Unobserved
from harness.contracts.randomness import Streams
from harness.contracts.registry import load, registry
from harness.contracts.task import Cost
from plugins.samplers.sgld import SGLD
from plugins.schedules.constant import Constant
from plugins.schedules.cyclical import Cyclical
from tasks.distances import ALL_DRAWS, DISTANCES, DRAWS, ENERGY_DISTANCE, FEWEST, STEIN_DISCREPANCY, places
from tasks.synthetic.bimodal1d import Bimodal1D
from tasks.synthetic.gaussian2d import Gaussian2D

pytestmark = pytest.mark.numbers

TASKS = {offer.name: load(offer.info.target) for offer in registry().offers("tasks")}
SAMPLED = [name for name, task in TASKS.items() if hasattr(task, "sample")]
STEIN = [name for name, task in TASKS.items() if STEIN_DISCREPANCY in task.metrics]
NAMES = {metric.name for metric in DISTANCES}
CHAINS, STEPS = 4, 600


def observed(task, draws, weights=None, path=None, *, alone=False):
    """The metrics of draws (n, C, D), or the distances alone."""
    n, chains, _ = draws.shape
    path = Constant(step_size=1.0).trajectory(n, 1) if path is None else path
    problem = task.build([Streams(0, c) for c in range(chains)], "cpu")
    observer = problem.observer(slice(0, chains), path, Cost(0.0, 1.0))
    if alone:
        observer.moments = Unobserved()
    weights = np.ones((n, chains)) if weights is None else weights
    observer.observe(torch.from_numpy(draws), torch.from_numpy(weights), np.flatnonzero(path.keep) + 1)
    return observer.outcome().metrics


@functools.cache
def exact(name, seed=1):
    task = TASKS[name]()
    return task.sample(STEPS * CHAINS, np.random.default_rng(seed)).reshape(STEPS, CHAINS, task.dim())


def values(name, draws, **options):
    """The distances alone."""
    metrics = observed(TASKS[name](), draws, alone=True, **options)
    assert metrics.keys() == NAMES
    return metrics


def scores(name, change, seeds):
    """Of exact draws that are changed: {metric: (seeds,)}."""
    runs = [values(name, change(exact(name, seed))) for seed in seeds]
    return {metric: np.array([run[metric] for run in runs]) for metric in sorted(NAMES)}


def test_densities_with_exact_draws_report_both_and_the_logistic_posteriors_the_second():
    assert {name for name, task in TASKS.items() if ENERGY_DISTANCE in task.metrics} == {*SAMPLED} != set()
    assert {*STEIN} == {*SAMPLED, "blr-australian", "blr-german", "blr-heart"}
    for name in STEIN:
        assert TASKS[name].metrics[0].name not in NAMES


@pytest.mark.parametrize("name", SAMPLED)
def test_exact_draws_score_nothing_and_wrong_ones_more(name):
    """A variance 1.3 times too large, and a mean off by half an sd."""
    pooled = exact(name).reshape(-1, TASKS[name]().dim())
    mean, sd = pooled.mean(0), pooled.std(0)
    plain = scores(name, lambda x: x, range(1, 9))
    wide = scores(name, lambda x: mean + np.sqrt(1.3) * (x - mean), (1, 2))
    shifted = scores(name, lambda x: x + sd / 2, (1,))
    for metric, values in plain.items():
        spread = values.std(ddof=1)
        assert abs(values.mean()) < 4 * spread / np.sqrt(8) + (0.0015 if metric == ENERGY_DISTANCE.name else 0)
        assert min(wide[metric].mean(), shifted[metric].mean()) > values.mean() + 3 * spread


@pytest.mark.parametrize("name", ["mixture2d", "mixture5", "mixture25"])
def test_missing_modes_show_in_the_energy_distance_and_not_in_the_stein_discrepancy(name):
    """A fifth of the modes, or one, which are 4 sd apart or more."""
    task, rng = TASKS[name](), np.random.default_rng(3)
    modes = task.means[rng.integers(-(-len(task.means) // 5), len(task.means), size=(STEPS, CHAINS))]
    missing = values(name, modes + np.sqrt(task.variance) * rng.standard_normal(modes.shape))
    plain = scores(name, lambda x: x, range(1, 9))
    energy, stein = (plain[metric.name] for metric in DISTANCES)
    assert missing[ENERGY_DISTANCE.name] > energy.mean() + 10 * energy.std(ddof=1)
    assert abs(missing[STEIN_DISCREPANCY.name] - stein.mean()) < 4 * stein.std(ddof=1)


def test_a_missing_mode_that_is_near_shows_in_both():
    """The barrier of bimodal1d is 1."""
    lost = scores("bimodal1d", lambda x: -np.abs(x), (1,))
    for metric, values in scores("bimodal1d", lambda x: x, range(1, 9)).items():
        assert lost[metric] > values.mean() + 10 * values.std(ddof=1)


@pytest.mark.parametrize("name", SAMPLED)
def test_draws_at_another_temperature_have_neither(name):
    draws = exact(name)
    for T in (0.5, 1.5):
        path = Constant(step_size=1.0, temperature=T).trajectory(STEPS, 1)
        assert set(values(name, draws, path=path).values()) == {None}
    cold = Constant(step_size=1.0).trajectory(2 * STEPS, 1).with_burn_in(STEPS).quiet(STEPS)
    assert values(name, draws, path=cold) == values(name, draws)


def test_weights_count_and_draws_without_one_do_not():
    """Draws of a normal that is too wide, with the weights that make them the target's."""
    wide = 1.5 * exact("gaussian2d")
    weights = np.exp(
        Gaussian2D().log_density(wide.reshape(-1, 2)) - Gaussian2D().log_density(wide.reshape(-1, 2) / 1.5)
    )
    weighted = values("gaussian2d", wide, weights=weights.reshape(wide.shape[:2]))
    for name, value in values("gaussian2d", wide).items():
        assert abs(weighted[name]) < value / 3
    draws, on = exact("gaussian2d"), np.ones((STEPS, CHAINS))
    on[::2] = 0
    far = np.where(on[..., None], draws, 1e3)
    assert values("gaussian2d", far, weights=on) == pytest.approx(values("gaussian2d", draws, weights=on))


@pytest.mark.parametrize("name", SAMPLED)
def test_lost_huge_and_single_draws_have_neither(name):
    for value in (np.inf, np.nan, 1e200):
        draws = exact(name).copy()
        draws[:, 1] = value
        assert set(values(name, draws).values()) == {None}
    assert set(values(name, exact(name)[:1]).values()) == {None}


def test_a_chain_that_stands_still_does_not_score_as_exact_draws_do():
    for name in SAMPLED:
        draws = np.broadcast_to(exact(name)[:1], (STEPS, CHAINS, TASKS[name]().dim())).copy()
        still, moving = values(name, draws), values(name, exact(name))
        assert all(still[metric] > 10 * abs(moving[metric]) for metric in NAMES)


def test_draws_are_taken_from_all_parts_of_a_run_whatever_its_period():
    for kept, period in ((5_000, 10), (40_000, 100), (100_000, 50)):
        chosen = places(kept, DRAWS)
        assert len(chosen) == len({*chosen.tolist()}) == DRAWS
        assert (np.diff(np.searchsorted(np.linspace(0, kept, 5), chosen, side="right")) >= 0).all()
        assert np.bincount(chosen * 4 // kept).tolist() == [DRAWS // 4] * 4
        shares = np.bincount(chosen % period * 5 // period, minlength=5) / DRAWS
        assert shares == pytest.approx(np.full(5, 0.2), abs=5 * 0.4 / np.sqrt(DRAWS))
    for kept in (1, 7, DRAWS, DRAWS + 1, 3 * DRAWS // 2):
        chosen = places(kept, DRAWS)
        assert sorted({*chosen.tolist()}) == chosen.tolist()
        assert len(chosen) == min(kept, DRAWS)
        assert chosen.max() < kept


@pytest.mark.parametrize("chains", [1, 4, 16, 200])
def test_a_run_of_many_chains_uses_fewer_draws_of_each(chains):
    problem = Gaussian2D().build([Streams(0, c) for c in range(chains)], "cpu")
    observer = problem.observer(slice(0, chains), Constant(step_size=1.0).trajectory(5_000, 1), Cost(0.0, 1.0))
    assert len(observer.places) == {1: DRAWS, 4: DRAWS, 16: ALL_DRAWS // 16, 200: FEWEST}[chains]


def test_particles_of_an_ensemble_all_count():
    """Of two particles in turn, one stays at 0 and the other at 1: neither alone."""
    still = np.zeros((2 * STEPS, 2, 1))
    alternating = still.copy()
    alternating[1::2] = 1
    path = Constant(step_size=1.0).trajectory(STEPS, 1).shared(2)
    of_one, of_both = (values("bimodal1d", draws, path=path) for draws in (still, alternating))
    assert of_one[ENERGY_DISTANCE.name] > of_both[ENERGY_DISTANCE.name]


def test_a_run_pays_for_no_gradient_of_a_metric_and_other_metrics_stay():
    task, path = Bimodal1D(), Cyclical(step_size=0.01, cycles=2)
    loop = run_loop(make_loop(task, SGLD(), path, 200, seeds=(0,)))
    outcome = loop.runs[0].observer.outcome()
    assert loop.spent(200) == pytest.approx(200 / 100)
    alone = loop.runs[0].observer.moments.outcome()
    assert {**outcome.metrics, **alone.metrics} == outcome.metrics
    assert outcome.metrics.keys() - alone.metrics.keys() == NAMES
    assert outcome.curves.keys() == alone.curves.keys()


def test_a_run_that_a_version_without_distances_began_has_none_and_its_other_metrics():
    task, path = Bimodal1D(), Constant(step_size=1.0).trajectory(STEPS, 1)
    draws = torch.from_numpy(exact("bimodal1d"))
    parts = [(draws[part], torch.ones(100, CHAINS), np.arange(1, 101)) for part in torch.arange(STEPS).split(100)]

    def fresh():
        return task.build([Streams(0, c) for c in range(CHAINS)], "cpu").observer(
            slice(0, CHAINS), path, Cost(0.0, 1.0)
        )

    whole = observer = fresh()
    for k, part in enumerate(parts):
        whole.observe(*part)
        if observer is not whole:
            observer.observe(*part)
        saved = {name: leaf for name, leaf in observer.state().items() if k != 1 or not name.startswith("distances/")}
        observer = fresh()
        observer.load(saved)
    expected = whole.outcome().metrics
    assert observer.outcome().metrics == {**expected, **dict.fromkeys(NAMES)}
    assert None not in expected.values()


@pytest.mark.data
@pytest.mark.parametrize("name", [name for name in STEIN if name not in SAMPLED])
def test_wide_and_shifted_draws_of_a_logistic_posterior_score_more(name):
    """Than those of the normal with its mean and covariance, which is nearly it."""
    task = TASKS[name]()
    if why := next((why for file in task.datasets if (why := problem_of(file))), None):
        pytest.skip(f"{why} under BENCH_DATA")
    truth, rng = task.truth(), np.random.default_rng(4)
    draws = rng.multivariate_normal(truth.mean, truth.covariance, size=(STEPS, CHAINS))

    def score(x):
        return observed(task, x)[STEIN_DISCREPANCY.name]

    near = score(draws)
    assert score(truth.mean + np.sqrt(1.3) * (draws - truth.mean)) > near + 0.005
    assert score(draws + 0.5 * truth.sd) > near + 0.005
    assert abs(near) < 0.004
