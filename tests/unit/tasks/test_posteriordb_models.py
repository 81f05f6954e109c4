"""The posteriors of posteriordb that are no regressions: densities term by term, gradients, and the reference draws."""

import functools
import itertools
import math

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.integrate import solve_ivp

from harness.tasks import Streams, data_root
from tasks.posteriordb.differential_equations import Elimination, LotkaVolterra
from tasks.posteriordb.eight_schools import EightSchoolsCentered, EightSchoolsNoncentered
from tasks.posteriordb.gaussian_process import GaussianProcessPoisson, GaussianProcessRegression
from tasks.posteriordb.hidden_markov import Drive0, Drive1, HmmExample, log_likelihood
from tasks.posteriordb.mixture import GaussMixture
from tasks.posteriordb.time_series import Arma, AutoRegression, Garch, recursion

norm, cauchy, halfcauchy = stats.norm.logpdf, stats.cauchy.logpdf, stats.halfcauchy.logpdf
with_data = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.data,
    pytest.mark.skipif(not (data_root() / "posteriordb").exists(), reason="no posteriordb below BENCH_DATA"),
]


def schools(x, data):
    theta = x.get("theta", x["mu"] + x["tau"] * x.get("theta_trans", 0.0))
    effects = norm(x["theta_trans"]) if "theta_trans" in x else norm(theta, x["mu"], x["tau"])
    likelihood = norm(data["y"], theta, data["sigma"])
    return likelihood.sum() + effects.sum() + norm(x["mu"], 0, 5) + halfcauchy(x["tau"], scale=5)


def autoregression(x, data):
    y, total = data["y"], norm(x["alpha"], 0, 10) + norm(x["beta"], 0, 10).sum() + halfcauchy(x["sigma"], scale=2.5)
    for t in range(5, len(y)):
        mean = x["alpha"] + sum(x["beta"][k] * y[t - 1 - k] for k in range(5))
        total += norm(y[t], mean, x["sigma"])
    return total


def arma(x, data):
    total = norm(x["mu"], 0, 10) + norm(x["phi"], 0, 2) + norm(x["theta"], 0, 2) + halfcauchy(x["sigma"], scale=2.5)
    error, before = 0.0, x["mu"]
    for y in data["y"]:
        error = y - (x["mu"] + x["phi"] * before + x["theta"] * error)
        total, before = total + norm(error, 0, x["sigma"]), y
    return total


def garch(x, data):
    variance, total = data["sigma1"] ** 2, 0.0
    for t, y in enumerate(data["y"]):
        if t:
            off = data["y"][t - 1] - x["mu"]
            variance = x["alpha0"] + x["alpha1"] * off**2 + x["beta1"] * variance
        total += norm(y, x["mu"], math.sqrt(variance))
    return total


def forward(x, emission, count):
    """The forward algorithm, without logarithms: the state probabilities are scaled at each time."""
    transitions, total = np.stack([x["theta1"], x["theta2"]]), 0.0
    state = np.ones(2)
    for t in range(count):
        logs = emission(t)
        state = (state @ transitions if t else state) * np.exp(logs - logs.max())
        total += logs.max() + math.log(state.sum())
        state = state / state.sum()
    return total


def hmm_example(x, data):
    priors = norm(x["mu"][0], 3, 1) + norm(x["mu"][1], 10, 1)
    return priors + forward(x, lambda t: norm(data["y"][t], x["mu"], 1), len(data["y"]))


def drive(x, data, emission):
    total = sum(stats.dirichlet.logpdf(x[f"theta{k + 1}"], data["alpha"][k]) for k in range(2))
    total += sum(norm(x[name][0], 0, 1) + norm(x[name][1], 3, 1) for name in ("phi", "lambda"))
    return total + forward(x, emission, len(data["u"]))


def drive_0(x, data):
    rates, u, v = (x["phi"], x["lambda"]), data["u"], data["v"]
    return drive(
        x, data, lambda t: sum(stats.expon.logpdf(z[t], scale=1 / rate) for z, rate in zip((u, v), rates, strict=True))
    )


def drive_1(x, data):
    return drive(
        x, data,
        lambda t: norm(data["u"][t], x["phi"], data["tau"]) + norm(data["v"][t], x["lambda"], data["rho"]),
    )  # fmt: skip


def covariance(x, data):
    distances = np.subtract.outer(data["x"], data["x"])
    return x["alpha"] ** 2 * np.exp(-(distances**2) / (2 * x["rho"] ** 2))


def process(x):
    return stats.gamma.logpdf(x["rho"], 25, scale=1 / 4) + stats.halfnorm.logpdf(x["alpha"], scale=2)


def gp_regression(x, data):
    likelihood = stats.multivariate_normal(np.zeros(11), covariance(x, data) + x["sigma"] * np.eye(11))
    return process(x) + stats.halfnorm.logpdf(x["sigma"]) + likelihood.logpdf(data["y"])


def gp_poisson(x, data):
    f = np.linalg.cholesky(covariance(x, data) + 1e-10 * np.eye(11)) @ x["f_tilde"]
    return process(x) + norm(x["f_tilde"]).sum() + stats.poisson.logpmf(data["k"], np.exp(f)).sum()


def mixture(x, data):
    total = norm(x["mu"], 0, 2).sum() + stats.halfnorm.logpdf(x["sigma"], scale=2).sum()
    parts = stats.norm.pdf(data["y"][:, None], x["mu"], x["sigma"]) @ [x["theta"], 1 - x["theta"]]
    return total + stats.beta.logpdf(x["theta"], 5, 5) + np.log(parts).sum()


def populations(x):
    a, b, c, d = x["theta"]
    solved = solve_ivp(
        lambda _, z: [a - b * np.exp(z[1]), d * np.exp(z[0]) - c], (0, 20), np.log(x["z_init"]),
        t_eval=np.arange(21), rtol=1e-10, atol=1e-10,
    )  # fmt: skip
    return solved.y.T


def lotka_volterra(x, data):
    counts = np.vstack([data["y_init"], data["y"]])
    total = stats.lognorm.logpdf(counts, x["sigma"], scale=np.exp(populations(x))).sum()
    total += norm(x["theta"], [1, 0.05, 1, 0.05], [0.5, 0.05, 0.5, 0.05]).sum()
    total += stats.lognorm.logpdf(x["sigma"], 1, scale=np.exp(-1)).sum()
    return total + stats.lognorm.logpdf(x["z_init"], 1, scale=10).sum()


def concentration(x, data):
    k, dose, v = x["k_a"], data["D"], data["V"]
    solved = solve_ivp(
        lambda t, c: np.exp(-k * t) * dose * k / v - x["V_m"] / v * c / (x["K_m"] + c), (0, 10), [0.0],
        t_eval=data["times"], method="LSODA", rtol=1e-10, atol=1e-12,
    )  # fmt: skip
    return solved.y[0]


def elimination(x, data):
    total = sum(halfcauchy(x[name]) for name in ("k_a", "K_m", "V_m", "sigma"))
    return total + stats.lognorm.logpdf(data["C_hat"], x["sigma"], scale=concentration(x, data)).sum()


MODELS = {
    EightSchoolsCentered: schools, EightSchoolsNoncentered: schools, AutoRegression: autoregression, Arma: arma,
    Garch: garch, HmmExample: hmm_example, Drive0: drive_0, Drive1: drive_1, GaussianProcessRegression: gp_regression,
    GaussianProcessPoisson: gp_poisson, GaussMixture: mixture, LotkaVolterra: lotka_volterra, Elimination: elimination,
}  # fmt: skip
SOLVED = {LotkaVolterra: 0.05, Elimination: 0.01}
"""Error of a difference of log densities: the error of a solution, times the sum of 20 or 40 residuals of a sigma."""

models = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)


def with_posteriordb(test):
    for mark in with_data:
        test = mark(test)
    return test


@functools.cache
def reference(model):
    """A quarter of the reference draws, without constraints, (2500, D)."""
    values = model().reference_values()
    return model().unconstrained({name: value[::4] for name, value in values.items()})


def near(model, count=6):
    """Points around the posterior, three of its standard deviations wide."""
    u = reference(model)
    z = torch.randn(count, u.shape[1], generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return u[:count] + (0.5 if model in SOLVED else 3.0) * u.std(0) * z


@models
@with_posteriordb
def test_a_density_is_that_of_the_statement_term_by_term(model):
    task, u = model(), near(model)
    values, _ = task.constrained(u)
    data = {k: v.numpy() if isinstance(v, torch.Tensor) else v for k, v in task.data.items()}
    written = [
        MODELS[model]({k: v[i].numpy() if v.ndim > 1 else float(v[i]) for k, v in values.items()}, data)
        for i in range(len(u))
    ]
    ours = task.log_density(values).numpy()
    assert np.diff(ours) == pytest.approx(np.diff(written), rel=1e-7, abs=SOLVED.get(model, 1e-6))


@models
@with_posteriordb
def test_gradients_are_those_of_finite_differences(model):
    task, u = model(), near(model, 3)
    direction = reference(model).std(0)[None]
    slope = (task.grad(u) * direction).sum(1)
    step = 1e-4
    quotient = (task.energy(u + step * direction) - task.energy(u - step * direction)) / (2 * step)
    assert slope.numpy() == pytest.approx(quotient.numpy(), rel=1e-4, abs=1e-3)


@models
@with_posteriordb
def test_reference_draws_satisfy_the_identities_of_stein(model):
    """E dU/du_i = 0 and E (u_i - m) dU/du_j = 1 if i = j, else 0: for draws of another density they fail."""
    u = reference(model)
    gradient = model().grad(u)
    moments = torch.cat([gradient[:, None, :], (u - u.mean(0))[:, :, None] * gradient[:, None, :]], 1).numpy()
    expected = np.vstack([np.zeros(u.shape[1]), np.eye(u.shape[1])])
    z = (moments.mean(0) - expected) / (moments.std(0) / len(u) ** 0.5)
    assert np.abs(z).max() < stats.norm.isf(0.0005 / z.size)


@models
@with_posteriordb
def test_the_inverse_gives_the_reference_draws(model):
    task, u = model(), reference(model)
    draws = task.reference_draws()
    judged = task.judged(u).numpy()
    for name, column in zip(task.judged_names(), judged.T, strict=True):
        assert column == pytest.approx(draws[name].ravel()[::4], rel=1e-6, abs=1e-8)


@models
@with_posteriordb
def test_chains_start_where_the_density_and_its_gradient_are_finite(model):
    task = model()
    start = task.build([Streams(0, c, ("test",)) for c in range(50)], "cpu").initial()
    assert task.energy(start).isfinite().all()
    assert task.grad(start).isfinite().all()


@with_posteriordb
def test_reference_draws_of_counts_have_the_moments_of_a_quadrature():
    """Over rho and log alpha, where importance sampling around the mode of f = L x integrates over the function."""
    task = GaussianProcessPoisson()
    axes = torch.linspace(2.5, 9.5, 36, dtype=torch.float64), torch.linspace(-0.4, 2.4, 29, dtype=torch.float64)
    rho, log_alpha = torch.cartesian_prod(*axes).unbind(1)
    values = {"rho": rho, "alpha": log_alpha.exp()}
    root, k, x = task.root(values, 1e-10), task.data["k"], torch.zeros(len(rho), 11, 1, dtype=torch.float64)

    def log_joint(x):
        f = root @ x
        return (k[:, None] * f - f.exp() - x.square() / 2).sum(1)

    for _ in range(60):  # Newton's method, with steps that are halved where they go down
        rate = (root @ x).exp()
        step = torch.linalg.solve(torch.eye(11) + root.mT @ (rate * root), root.mT @ (k[:, None] - rate) - x)
        size = torch.ones(len(x), 1, 1, dtype=torch.float64)
        for _ in range(20):
            size = torch.where((log_joint(x + size * step) >= log_joint(x) - 1e-9)[:, None], size, size / 2)
        x = x + size * step
    hessian = torch.eye(11) + root.mT @ ((root @ x).exp() * root)
    spread = torch.linalg.cholesky(torch.linalg.inv(hessian))
    z = torch.randn(11, 200, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ratio = log_joint(x + spread @ z) + z.square().sum(0) / 2
    log_mass = ratio.logsumexp(1) + spread.diagonal(dim1=1, dim2=2).log().sum(1) + task.priors(values) + log_alpha
    mass = torch.softmax(log_mass, 0)
    draws = task.reference_draws()
    for name, nodes in values.items():
        mean = (mass * nodes).sum()
        sd = (mass * (nodes - mean).square()).sum().sqrt()
        assert draws[name].mean() == pytest.approx(float(mean), abs=4 * float(sd) / 100)
        assert draws[name].std() == pytest.approx(float(sd), rel=0.03)


@with_posteriordb
def test_solutions_have_the_errors_that_are_stated():
    draws = reference(LotkaVolterra)[::200]
    task = LotkaVolterra()
    values, _ = task.constrained(draws)
    ours = torch.stack([values["z_init"].log(), *task.solution(values["theta"], values["z_init"])], 1).numpy()
    for i, solved in enumerate(ours):
        assert np.abs(solved - populations({k: v[i].numpy() for k, v in values.items()})).max() < 2.2e-4
    task, draws = Elimination(), reference(Elimination)
    extreme = draws[torch.cat([draws[:, 1].argsort()[[0, 1, 2, -1]], torch.arange(0, 2500, 250)])]
    values, _ = task.constrained(extreme)
    ours = torch.stack(task.solution(values), 1).log().numpy()
    data = {k: v.numpy() if isinstance(v, torch.Tensor) else v for k, v in task.data.items()}
    for i, solved in enumerate(ours):
        exact = np.log(concentration({k: float(v[i]) for k, v in values.items()}, data))
        assert np.abs(solved - exact).max() < 2.2e-5


@pytest.mark.parametrize("count", [2, 3, 5, 8])
def test_the_likelihood_of_hidden_states_is_a_sum_over_all_of_their_sequences(count):
    rng = np.random.default_rng(count)
    emissions, transitions = 3 * rng.standard_normal((2, count, 3)), rng.dirichlet(np.ones(3), size=(2, 3))
    ours = log_likelihood(torch.from_numpy(emissions), torch.from_numpy(transitions))
    for chain in range(2):
        total = 0.0
        for states in itertools.product(range(3), repeat=count):
            logs = sum(emissions[chain, t, state] for t, state in enumerate(states))
            total += math.exp(logs) * math.prod(transitions[chain, a, b] for a, b in itertools.pairwise(states))
        assert float(ours[chain]) == pytest.approx(math.log(total))


def test_a_likelihood_of_hidden_states_neither_overflows_nor_vanishes():
    emissions = torch.tensor([[-900.0, -2000.0], [800.0, 0.0], [-1e4, 1e4]] * 300, dtype=torch.float64)[None]
    emissions.requires_grad_()
    value = log_likelihood(emissions, torch.tensor([[[0.9, 0.1], [1e-12, 1 - 1e-12]]], dtype=torch.float64))
    (slope,) = torch.autograd.grad(value.sum(), emissions)
    best = 300 * (-900 + 800 + 1e4 + math.log(0.9) + math.log(0.1)) + 299 * math.log(1e-12)
    assert float(value.detach()) == pytest.approx(best, rel=1e-9)
    assert slope.sum(2).numpy() == pytest.approx(1.0)


@pytest.mark.parametrize("count", [1, 2, 7, 64])
def test_a_recursion_is_its_loop(count):
    rng = np.random.default_rng(0)
    inputs, factor = rng.standard_normal((3, count)), np.array([0.9, -1.1, 0.0])
    x, expected = np.zeros(3), []
    for t in range(count):
        x = inputs[:, t] + factor * x
        expected.append(x)
    assert recursion(torch.from_numpy(inputs), torch.from_numpy(factor)).numpy() == pytest.approx(np.stack(expected, 1))


def test_parameters_without_a_variance_are_judged_by_their_logarithms():
    task = Elimination()
    assert task.judged_names() == ["k_a", "sigma", "log K_m", "log V_m"]
    theta = torch.tensor([[0.3, -0.2, 1.1, 0.7]], dtype=torch.float64)
    assert task.judged(theta)[0].tolist() == pytest.approx([math.exp(0.3), math.exp(0.7), -0.2, 1.1])
    assert "K_m" in task.functions(theta)
