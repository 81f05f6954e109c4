"""Parameters with constraints and functions of theta: Jacobians, densities, errors."""

import functools
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch
from scipy import stats

from harness import PluginError
from harness.contracts.schedule import Trajectory
from harness.tasks import Cost, Protocol, Streams, Truth
from plugins.checking.task_laws import TASK_LAWS
from tasks.functions import (
    KEPT,
    Bounded,
    ConstrainedDataTask,
    ConstrainedTask,
    FunctionTask,
    Ordered,
    Positive,
    PositiveOrdered,
    Real,
    Simplex,
)

pytestmark = pytest.mark.usefixtures("one_thread")

PROTOCOLS = (Protocol("default", "ours", {"smoke": 100}),)
CASES = [
    Real("x", (2, 2)),
    Positive("x", 3),
    Ordered("x", 4),
    PositiveOrdered("x", 3),
    Simplex("x", 4),
    Bounded("x", 2, lower=-1.0, upper=3.0),
    Bounded("x", 2, lower=2.0),
    Bounded("x", 2, upper=-2.0),
    Bounded("x", 2),
    Bounded("x", (), lower=0.0, upper=lambda values: values["scale"]),
    Bounded("x", 2, lower=lambda values: -values["scale"]),
]
CASE_NAMES = [f"{type(one).__name__}-{k}" for k, one in enumerate(CASES)]
SCALE = torch.tensor([1.5], dtype=torch.float64)


@pytest.mark.parametrize("parameter", CASES, ids=CASE_NAMES)
def test_the_jacobian_is_that_of_the_constrained_coordinates(parameter):
    u = torch.randn(parameter.size, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def judged(x):
        return parameter.judged(parameter.constrained(x[None], {"scale": SCALE})[0])[0]

    jacobian = torch.autograd.functional.jacobian(judged, u)
    value, log_jacobian = parameter.constrained(u[None], {"scale": SCALE})
    assert value.shape == (1, *parameter.shape)
    assert jacobian.shape == (parameter.size, parameter.size)
    assert float(log_jacobian) == pytest.approx(float(torch.linalg.slogdet(jacobian)[1]), abs=1e-10)


@pytest.mark.parametrize("parameter", CASES, ids=CASE_NAMES)
@pytest.mark.parametrize("far", [30.0, -30.0, 700.0, -700.0])
def test_constraints_hold_far_out_and_gradients_are_finite(parameter, far):
    u = (torch.full((1, parameter.size), far, dtype=torch.float64)).requires_grad_()
    value, log_jacobian = parameter.constrained(u, {"scale": SCALE})
    x = value.detach().flatten()
    if isinstance(parameter, Simplex):
        assert float(x.sum()) == pytest.approx(1.0)
    if isinstance(parameter, Simplex | Positive | PositiveOrdered):
        assert (x >= 0).all()
    if isinstance(parameter, Ordered):
        assert (x.diff() >= 0).all()
    if isinstance(parameter, Bounded) and isinstance(parameter.lower, float):
        assert (x >= parameter.lower).all()
    if isinstance(parameter, Bounded) and isinstance(parameter.upper, float):
        assert (x <= parameter.upper).all()
    (slope,) = torch.autograd.grad((log_jacobian + 0 * u.sum()).sum(), u)
    assert slope.isfinite().all()


@pytest.mark.parametrize("parameter", CASES, ids=CASE_NAMES)
def test_unconstrained_is_the_inverse(parameter):
    u = 2 * torch.randn((20, parameter.size), generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    values = {"scale": SCALE.expand(20)}
    value, _ = parameter.constrained(u, values)
    assert parameter.unconstrained(value, values).numpy() == pytest.approx(u.numpy(), abs=1e-8)


@pytest.mark.parametrize("parameter", CASES, ids=CASE_NAMES)
def test_judged_has_the_bits_of_the_constrained_parameters(parameter):
    task = type("Declared", (ConstrainedTask,), {"parameters": (Positive("scale"), parameter, Real("y", 2))})()
    theta = 3 * torch.randn((100, task.dim()), generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    for row, value in enumerate((800.0, -800.0, np.inf, -np.inf, np.nan, -0.0)):
        theta[row] = value
    values, judged = task.constrained(theta)[0], task.judged(theta)
    expected = torch.cat([one.judged(values[one.name]) for one in task.parameters], 1)
    assert torch.equal(*(x.masked_fill(x.isnan(), 1.5).view(torch.int64) for x in (judged, expected)))


DENSITIES = {
    "exponential": ((Positive("x"),), lambda v: -v["x"], 1.0),
    "flat": ((Bounded("x", (), -1.0, 3.0),), lambda v: 0 * v["x"], 4.0),
    "half-normal": ((Bounded("x", (), 1.0),), lambda v: -(v["x"] - 1).square() / 2, np.sqrt(np.pi / 2)),
    "dirichlet": ((Simplex("x", 3),), lambda v: v["x"][:, 0].log(), 1 / 6),
    "flat simplex": ((Simplex("x", 3),), lambda v: 0 * v["x"][:, 0], 1 / 2),
    "ordered": ((Ordered("x", 2),), lambda v: -v["x"].square().sum(1) / 2, np.pi),
    "positive ordered": ((PositiveOrdered("x", 2),), lambda v: -v["x"].sum(1), 0.5),
    "triangle": ((Bounded("a", (), 0.0, 1.0), Bounded("x", (), 0.0, lambda v: v["a"])), lambda v: 0 * v["x"], 0.5),
}


@pytest.mark.parametrize("name", DENSITIES)
def test_densities_have_their_mass_on_the_constrained_scale(name):
    parameters, log_density, mass = DENSITIES[name]
    task = type("Made", (ConstrainedTask,), {"parameters": parameters, "protocols": PROTOCOLS})()
    object.__setattr__(task, "log_density", log_density)
    axis = torch.linspace(-40, 40, 801 if task.dim() == 2 else 40_001, dtype=torch.float64)
    grid = torch.cartesian_prod(*[axis] * task.dim()).reshape(-1, task.dim())
    total = torch.exp(-task.energy(grid)).nan_to_num(0.0).sum() * (axis[1] - axis[0]) ** task.dim()
    assert float(total) == pytest.approx(mass, rel=1e-6)


@dataclass(frozen=True, kw_only=True)
class Gamma(ConstrainedTask):
    """tau ~ Gamma(4, 1), and pi ~ Dirichlet(2, 2, 2)."""

    protocols = PROTOCOLS
    parameters: ClassVar = (Positive("tau"), Simplex("pi", 3))

    def log_density(self, values):
        return 3 * values["tau"].log() - values["tau"] + values["pi"].log().sum(1)

    def function_truth(self):
        return gamma_truth()


@functools.cache
def gamma_truth():
    tau, pi = exact(50_000, 1)
    return Truth.of_points(np.column_stack([tau, pi[:, :2]]), how="exact draws")


def exact(n, seed):
    rng = np.random.default_rng(seed)
    return rng.gamma(4.0, size=n), rng.dirichlet([2.0, 2.0, 2.0], size=n)


def theta_of(tau, pi):
    """The inverse of the transformations."""
    z1, z2 = pi[:, 0], pi[:, 1] / (1 - pi[:, 0])
    return torch.from_numpy(np.column_stack([np.log(tau), np.log(z1 / (1 - z1)) + np.log(2), np.log(z2 / (1 - z2))]))


def observed(task, theta, weights=None):
    draws, chains, _ = theta.shape
    keep = np.ones(draws, dtype=bool)
    path = Trajectory(np.ones(draws), np.ones(draws), keep, keep, np.zeros(draws, dtype=int), ~keep)
    observer = task.observer(chains, path, Cost(0.0, 1.0))
    weights = torch.ones(draws, chains, dtype=torch.float64) if weights is None else weights
    observer.observe(theta, weights, np.arange(draws) + 1)
    return observer.outcome()


def test_draws_are_judged_and_stored_on_the_constrained_scale():
    tau, pi = exact(4000, 7)
    theta = theta_of(tau, pi)
    values, _ = Gamma().constrained(theta)
    assert values["tau"].numpy() == pytest.approx(tau)
    assert values["pi"].numpy() == pytest.approx(pi)
    assert Gamma().unconstrained(values).numpy() == pytest.approx(theta.numpy())
    right = observed(Gamma(), theta.reshape(2000, 2, 3))
    assert right.metrics["joint_error"] < 0.01
    assert right.arrays["function_tau"].shape == (2, KEPT, 1)
    assert right.arrays["function_pi"].shape == (2, KEPT, 3)
    assert right.arrays["function_pi"].sum(2) == pytest.approx(1.0, abs=1e-5)
    assert right.arrays["function_tau"][1, :, 0] == pytest.approx(tau.reshape(2000, 2)[::4, 1], rel=1e-5)
    assert right.arrays["kept_steps"].tolist() == list(range(1, 2001, 4))
    assert Gamma().judged_names() == ["tau", "pi[1]", "pi[2]"]
    known = right.arrays["true_moments"]
    assert known[:, 0] == pytest.approx([4.0, 2.0], rel=0.03)
    assert known[0, 1:3] == pytest.approx([1 / 3, 1 / 3], rel=0.03)
    assert np.isnan(known[:, 3]).all()
    wrong = observed(Gamma(), theta_of(1.5 * tau, pi).reshape(2000, 2, 3))
    assert wrong.metrics["joint_error"] > 0.1


def test_weights_of_draws_count():
    tau, pi = exact(4000, 7)
    off = theta_of(3 * tau, pi).reshape(2000, 2, 3)
    ratio = stats.gamma(4).pdf(3 * tau) / (stats.gamma(4).pdf(tau) / 3)
    weighted = observed(Gamma(), off, torch.from_numpy(ratio.reshape(2000, 2)))
    assert weighted.metrics["joint_error"] < 0.1 < observed(Gamma(), off).metrics["joint_error"]


def test_without_a_truth_functions_are_stored_alone():
    class Unknown(Gamma):
        def function_truth(self):
            return self.stored_truth

    outcome = observed(Unknown(), theta_of(*exact(40, 1)).reshape(20, 2, 3))
    assert not outcome.metrics
    assert outcome.arrays["function_tau"].shape == (2, 20, 1)
    task = Unknown()
    assert task.function_reference() is None
    object.__setattr__(task, "stored_truth", gamma_truth())
    assert task.truth() is None
    assert task.function_reference().kind == "function space"
    assert observed(task, theta_of(*exact(40, 1)).reshape(20, 2, 3)).metrics["joint_error"] is not None


@dataclass(frozen=True, kw_only=True)
class LogScale(FunctionTask):
    """log tau ~ N(0, 1), judged by tau."""

    protocols = PROTOCOLS

    def dim(self):
        return 1

    def energy(self, theta):
        return theta.square().sum(1) / 2

    def functions(self, theta):
        return {"tau": theta.exp()}

    def function_truth(self):
        points = np.linspace(-9, 9, 20_001)
        return Truth.of_points(np.exp(points)[:, None], np.exp(-(points**2) / 2))


def test_a_density_is_judged_by_its_functions():
    law = stats.lognorm(1.0)
    truth = LogScale().function_truth()
    assert truth.mean[0] == pytest.approx(law.mean())
    assert truth.sd[0] == pytest.approx(law.std())
    draws = torch.randn((4000, 2, 1), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert observed(LogScale(), draws).metrics["mean_error"] < 0.1
    assert observed(LogScale(), draws + 1).metrics["mean_error"] > 0.5


@dataclass(frozen=True, kw_only=True)
class Counts(ConstrainedDataTask):
    """Counts y_i ~ Poisson(rate), whose prior is flat on rate > 0: Gamma(1 + sum y, N)."""

    protocols = PROTOCOLS
    parameters: ClassVar = (Positive("rate"),)
    batch: int | None = 4

    def arrays(self, part):
        return {"y": np.random.default_rng(0).poisson(3.0, size=30).astype(float)}

    def row_log_density(self, values, rows):
        rate = values["rate"][:, None]
        return rows["y"] * rate.log() - rate


@dataclass(frozen=True, kw_only=True)
class Means(Counts):
    """y_i ~ N(mean, 1) with a flat prior, which has neither terms nor a Jacobian."""

    parameters: ClassVar = (Real("mean", 1),)

    def row_log_density(self, values, rows):
        return -(rows["y"] - values["mean"]).square() / 2


def test_a_posterior_of_data_is_judged_on_the_constrained_scale():
    y = Counts().arrays("train")["y"]
    problem = Counts().build([Streams(0, c, ("test",)) for c in range(2)], "cpu")
    rate = np.linspace(0.01, 12, 4001)
    u = torch.from_numpy(np.log(rate))[:, None]
    share = np.exp(-problem.energy(u, None).numpy() + float(problem.energy(u, None).min())) / rate  # dx = rate du
    mean = (share * rate).sum() / share.sum()
    assert mean == pytest.approx((1 + y.sum()) / len(y), rel=1e-6)
    draws = np.random.default_rng(0).gamma(1 + y.sum(), 1 / len(y), size=(4000, 2, 1))
    task = Counts()
    law = stats.gamma(1 + y.sum(), scale=1 / len(y))
    points = law.ppf((np.arange(2000) + 0.5) / 2000)[:, None]
    object.__setattr__(task, "stored_truth", Truth.of_points(points))
    path = Trajectory(*[np.ones(4000)] * 2, *[np.ones(4000, dtype=bool)] * 2, *[np.zeros(4000, dtype=int)] * 2)
    observer = task.observer(problem, slice(0, 2), path, Cost(0.0, 1.0))
    observer.observe(torch.from_numpy(draws).log(), torch.ones(4000, 2).double(), np.arange(4000) + 1)
    outcome = observer.outcome()
    assert outcome.metrics["joint_error"] < 0.01
    assert outcome.arrays["function_rate"].shape == (2, KEPT, 1)


LAWS = ("gradient is that of the energy", "chains do not interact", "blocks do not matter", "compiled is plain")


@pytest.mark.parametrize("task", [Gamma(), Counts(), Means()], ids=lambda task: type(task).__name__)
@pytest.mark.parametrize("law", LAWS)
def test_the_laws_of_tasks_hold(law, task):
    dict(TASK_LAWS)[law](task)


def test_minibatches_average_to_the_whole():
    dict(TASK_LAWS)["mean of batches"](Counts())


def test_chains_start_within_two_units_and_names_are_checked():
    start = Gamma().build([Streams(0, c, ("test",)) for c in range(50)], "cpu").initial()
    assert float(start.abs().max()) <= 2.0
    with pytest.raises(PluginError, match="same name: a, a"):
        type("Twice", (ConstrainedTask,), {"parameters": (Real("a"), Positive("a"))})
    with pytest.raises(PluginError, match=r"Simplex\('a'\) needs a shape"):
        type("Flat", (ConstrainedTask,), {"parameters": (Simplex("a", ()),)})
