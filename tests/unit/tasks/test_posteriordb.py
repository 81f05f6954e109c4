"""posteriordb's files and its regressions: densities term by term, gradients, minibatches, and the reference draws."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

from harness import DataError, PluginError
from harness.contracts.data import problem as wrong
from harness.contracts.registry import load
from harness.tasks import Streams, data_root
from tasks import bench_tasks
from tasks.functions import Constrained, Positive, Real
from tasks.posteriordb import data, regressions, tables
from tasks.posteriordb.designs import Prior, class_name, posteriors
from tasks.posteriordb.listing import REGRESSIONS
from tasks.posteriordb.posterior import Posterior

norm, t = stats.norm.logpdf, stats.t.logpdf
CLASSES = {name: getattr(regressions, class_name(name)) for name in posteriors()}
INFOS = [info for info in bench_tasks() if info.group == "posteriordb"]


def with_posteriordb(test):
    for mark in (
        pytest.mark.usefixtures("one_thread"),
        pytest.mark.data,
        pytest.mark.skipif(not (data_root() / "posteriordb").exists(), reason="no posteriordb below BENCH_DATA"),
    ):
        test = mark(test)
    return test


def every_regression(test):
    return pytest.mark.parametrize("name", CLASSES)(with_posteriordb(test))


def z(x, sds=1):
    return (x - x.mean()) / (sds * x.std(ddof=1))


def product(y, a, b):
    return y, [1, a, b, a * b]


def mesquite(d, *columns):
    return np.log(d["weight"]), [1, *columns, d["group"]]


def size(d):
    return [d[name] for name in ("diam1", "diam2", "canopy_height", "total_height", "density")]


def shape(d, *others):
    area = d["diam1"] * d["diam2"]
    return mesquite(d, *np.log([area * d["canopy_height"], area, *(other(d) for other in others)]))


def party(d):
    ages = [d["age_discrete"] == k for k in (2, 3, 4)]
    return d["partyid7"], [1, d["real_ideo"], d["race_adj"], *ages, d["educ1"], d["gender"], d["income"]]


def ratio(d):
    return d["diam1"] / d["diam2"]


def height(d):
    return d["total_height"]


LOG = {name: lambda d, f=f: (np.log(d["earn"]), f(d)) for name, f in {
    "logearn_height": lambda d: [1, d["height"]],
    "logearn_height_male": lambda d: [1, d["height"], d["male"]],
    "logearn_logheight_male": lambda d: [1, np.log(d["height"]), d["male"]],
    "logearn_interaction": lambda d: [1, d["height"], d["male"], d["height"] * d["male"]],
    "logearn_interaction_z": lambda d: [1, z(d["height"]), d["male"], z(d["height"]) * d["male"]],
}.items()}  # fmt: skip
STATED = {
    "kidscore_momhs": lambda d: (d["kid_score"], [1, d["mom_hs"]]),
    "kidscore_momiq": lambda d: (d["kid_score"], [1, d["mom_iq"]]),
    "kidscore_momhsiq": lambda d: (d["kid_score"], [1, d["mom_hs"], d["mom_iq"]]),
    "kidscore_interaction": lambda d: product(d["kid_score"], d["mom_hs"], d["mom_iq"]),
    "kidscore_interaction_c": lambda d: product(
        d["kid_score"], d["mom_hs"] - d["mom_hs"].mean(), d["mom_iq"] - d["mom_iq"].mean()
    ),
    "kidscore_interaction_c2": lambda d: product(d["kid_score"], d["mom_hs"] - 0.5, d["mom_iq"] - 100),
    "kidscore_interaction_z": lambda d: product(d["kid_score"], z(d["mom_hs"], 2), z(d["mom_iq"], 2)),
    "kidscore_mom_work": lambda d: (d["kid_score"], [1, *(d["mom_work"] == k for k in (2, 3, 4))]),
    "earn_height": lambda d: (d["earn"], [1, d["height"]]),
    "log10earn_height": lambda d: (np.log10(d["earn"]), [1, d["height"]]),
    **LOG,
    "mesquite": lambda d: (d["weight"], [1, *size(d), d["group"]]),
    "logmesquite": lambda d: mesquite(d, *np.log(size(d))),
    "logmesquite_logvolume": lambda d: (np.log(d["weight"]), [1, np.log(d["diam1"] * d["diam2"] * d["canopy_height"])]),
    "logmesquite_logva": shape,
    "logmesquite_logvas": lambda d: shape(d, ratio, height, lambda d: d["density"]),
    "logmesquite_logvash": lambda d: shape(d, ratio, height),
    "nes": party,
    "diamonds": lambda d: (d["Y"], [*(d["X"] - d["X"].mean(0)).T[1:], 1]),
    "blr": lambda d: (d["y"], d["X"].T),
    "kilpisjarvi": lambda d: (d["y"], [1, d["x"]]),
}
"""The response and the columns of each model, from the data."""
PRIORS = {
    "kidiq": lambda _b, s, _d: stats.halfcauchy.logpdf(s, 0, 2.5),
    "diamonds": lambda b, s, _d: norm(b[:-1]).sum() + t(b[-1], 3, 8, 10) + t(s, 3, 0, 10),
    "sblrc": lambda b, s, _d: norm(b, 0, 10).sum() + stats.halfnorm.logpdf(s, scale=10),
    "sblri": lambda b, s, _d: norm(b, 0, 10).sum() + stats.halfnorm.logpdf(s, scale=10),
    "kilpisjarvi_mod": lambda b, _s, d: norm(b, [d["pmualpha"], d["pmubeta"]], [d["psalpha"], d["psbeta"]]).sum(),
}
"""The log density of b and sigma, by the data; flat where it is not stated."""


def stated_density(posterior, theta):
    """The log density of theta = (b, log sigma) by scipy, up to a constant."""
    name, _, model = posterior.partition("-")
    d = {k: np.array(v) if isinstance(v, list) else v for k, v in data.load_data(posterior).items()}
    y, columns = STATED[model](d)
    x = np.stack([np.broadcast_to(np.asarray(column, dtype=float), len(y)) for column in columns], 1)
    b, sigma = theta[:-1], np.exp(theta[-1])
    prior = PRIORS.get(name, lambda *_: 0.0)(b, sigma, d)
    return norm(y, x @ b, sigma).sum() + prior + np.log(sigma)


def built(task):
    return task.build([Streams(0, c, ("test",)) for c in range(3)], "cpu")


def near(task, count=4):
    """Points three times as wide as the posterior."""
    mean, root = map(torch.from_numpy, task.approximation)
    return mean + 3 * torch.randn(count, len(mean), generator=torch.Generator().manual_seed(1)).double() @ root.T


def difference(task):
    """How far differences between points are off those of `stated_density`, at most."""
    theta = near(task)
    energy = built(task).energy(theta, None).numpy()
    stated = [stated_density(task.posterior, each) for each in theta.numpy()]
    return np.abs(np.diff(energy) + np.diff(stated)).max()


@every_regression
def test_a_density_is_that_of_the_statement_term_by_term(name):
    assert difference(CLASSES[name]()) < 1e-6


def changed(name, **attributes):
    return type("Changed", (CLASSES[name],), {"__module__": regressions.__name__, **attributes})()


def design(name, **fields):
    return {"design": CLASSES[name].design._replace(**fields)}


WRONG = {
    "no prior": lambda: changed("pdb-kidscore-momhs", **design("pdb-kidscore-momhs", priors={})),
    "a prior of another width": lambda: changed(
        "pdb-diamonds",
        **design("pdb-diamonds", priors=CLASSES["pdb-diamonds"].design.priors | {"b": Prior(0, 1.01)}),
    ),
    "no Jacobian": lambda: changed("pdb-nes2000", constrained=no_jacobian),
    "another sign": lambda: changed(
        "pdb-kilpisjarvi", log_density=lambda self, values: -CLASSES["pdb-kilpisjarvi"].log_density(self, values)
    ),
    "columns exchanged": lambda: changed(
        "pdb-logearn-height-male", **design("pdb-logearn-height-male", columns=["1", "male", "height"])
    ),
    "a population sd": lambda: changed(
        "pdb-kidscore-interaction-z",
        **design("pdb-kidscore-interaction-z", columns=[
            column.replace("STDDEV(mom_iq)", "(STDDEV(mom_iq) * 0.99885)")
            for column in CLASSES["pdb-kidscore-interaction-z"].design.columns
        ]),
    ),
    "log sigma missing": lambda: changed(
        "pdb-sblrc",
        row_log_density=lambda self, values, rows: (
            CLASSES["pdb-sblrc"].row_log_density(self, values, rows) + values["sigma"][:, None].log()
        ),
    ),
}  # fmt: skip


def no_jacobian(self, theta):
    values, log_jacobian = CLASSES["pdb-nes2000"].constrained(self, theta)
    return values, 0 * log_jacobian


@pytest.mark.parametrize("mistake", WRONG)
@with_posteriordb
def test_a_mistake_in_a_density_is_noticed(mistake):
    assert difference(WRONG[mistake]()) > 1e-3


@every_regression
def test_gradients_are_those_of_finite_differences(name):
    task = CLASSES[name]()
    problem, theta, step = built(task), near(task), 1e-4
    energy, gradient = problem.energy_and_gradient(theta, None)
    assert gradient.numpy() == pytest.approx(problem.gradient(theta, None).numpy(), rel=1e-12)
    assert energy.numpy() == pytest.approx(problem.energy(theta, None).numpy())
    for direction in torch.from_numpy(task.approximation[1]).T:
        quotient = (problem.energy(theta + step * direction, None) - problem.energy(theta - step * direction, None)) / (
            2 * step
        )
        assert (gradient @ direction).numpy() == pytest.approx(quotient.numpy(), rel=1e-6, abs=1e-4)


@every_regression
def test_the_gradients_of_an_epoch_average_to_the_full_one(name):
    task = CLASSES[name](batch=32)
    problem, theta = built(task), near(task, 3)
    steps = task.steps_per_epoch()
    batches = problem.draw_batches(steps)["index"]
    each = torch.stack([problem.gradient(theta, {"index": batches[k]}) for k in range(steps)])
    full = problem.gradient(theta, None)
    assert each.mean(0).numpy() == pytest.approx(full.numpy(), rel=1e-9, abs=1e-9 * float(each.abs().max()))
    assert (each[0] - full).abs().max() > 1e-3 * full.abs().max()


def stein(task, every=4):
    """The z values of E dU/dw_i = 0 and E w_i dU/dw_j = 1 if i = j, else 0, in coordinates w without correlations.

    Along the coordinates of theta a wrong prior would be hidden by the large gradients in narrow directions.
    """
    theta = task.unconstrained(task.reference_values())[::every]
    problem = built(task)
    root = torch.linalg.cholesky(theta.T.cov())
    gradient = torch.cat([problem.gradient(part, None) for part in theta.split(1000)]) @ root
    w = torch.linalg.solve_triangular(root, (theta - theta.mean(0)).T, upper=False).T
    moments = torch.cat([gradient[:, None, :], w[:, :, None] * gradient[:, None, :]], 1).numpy()
    expected = np.vstack([np.zeros(task.dim()), np.eye(task.dim())])
    return (moments.mean(0) - expected) / (moments.std(0) / len(moments) ** 0.5)


@every_regression
def test_the_reference_draws_are_of_the_density(name):
    """The draws are fixed: at this level, 1 % over all numbers of all posteriors, no chance is involved in passing."""
    values = stein(CLASSES[name]())
    assert np.abs(values).max() < stats.norm.isf(0.005 / (46 * values.size))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("pdb-kidscore-momhs", {"priors": {}}),
        ("pdb-kilpisjarvi", {"priors": {"beta": Prior(0, 1 / 60)}}),
        ("pdb-sblrc", {"columns": ["X1", "X2", "X3", "X5", "X4"]}),
        ("pdb-logearn-height-male", {"response": "1.01 * LN(earn)"}),
        ("pdb-nes2000", {"response": "partyid7 + 0.1"}),
    ],
)
@with_posteriordb
def test_the_reference_draws_are_not_of_another_density(name, change):
    values = stein(changed(name, **design(name, **change)), 1)
    assert np.abs(values).max() > stats.norm.isf(0.005 / (46 * values.size))


@every_regression
def test_the_number_of_rows_is_stated(name):
    task = CLASSES[name]()
    assert task.terms() == task.data["N"] == len(task.arrays("train")["y"])


@pytest.mark.parametrize("name", ["pdb-diamonds", "pdb-earn-height", "pdb-kilpisjarvi", "pdb-mesquite", "pdb-nes2000"])
@with_posteriordb
def test_chains_start_around_the_posterior(name):
    task = CLASSES[name]()
    start = task.build([Streams(0, c, ("test",)) for c in range(400)], "cpu").initial()
    truth = task.function_truth()
    off = (task.judged(start).mean(0).numpy() - truth.mean) / truth.sd
    assert np.abs(off).max() < 0.5
    assert (task.judged(start).std(0).numpy() / truth.sd).round(1) == pytest.approx(2.0, abs=0.4)


EXTREME = (800.0, -800.0, np.inf, -np.inf, np.nan, -0.0)


@pytest.mark.parametrize("info", INFOS, ids=lambda info: info.name)
@with_posteriordb
def test_judged_has_the_bits_of_the_functions_of_the_constrained_parameters(info, monkeypatch):
    task = load(info.target)()
    theta = 2 * torch.randn((300, task.dim()), generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    for row, value in enumerate(EXTREME):
        theta[row], theta[row + len(EXTREME), row % task.dim()] = value, value
    before, judged = theta.clone(), task.judged(theta)
    assert np.array_equal(theta.numpy(), before.numpy(), equal_nan=True)
    monkeypatch.setattr(Constrained, "constrained_values", lambda self, x: self.constrained(x)[0])
    numbers = {
        label: column
        for name, values in task.functions(theta).items()
        for label, column in zip(task.function_names()[name], values.flatten(1).unbind(1), strict=True)
    }
    expected = torch.stack([numbers[label] for label in task.judged_names()], 1)
    assert judged.is_contiguous()
    assert torch.equal(*(x.masked_fill(x.isnan(), 1.5).view(torch.int64) for x in (judged, expected)))


@with_posteriordb
def test_truths_are_the_moments_of_the_reference_draws():
    task = CLASSES["pdb-diamonds"]()
    draws, truth = data.reference_draws(task.posterior), task.function_truth()
    assert {each.shape for each in draws.values()} == {(1000, 10)}
    assert task.judged_names() == [*draws]
    assert truth.mean == pytest.approx([each.mean() for each in draws.values()])
    assert truth.sd == pytest.approx([each.std() for each in draws.values()])
    assert truth.quantiles[0] == pytest.approx(np.quantile(draws["b[1]"], (np.arange(40) + 0.5) / 40))
    chains = np.stack([each.mean(0) for each in draws.values()])
    between = (chains.std(1, ddof=1) / 10**0.5 / truth.mean_mcse) ** 2  # chi-square / 9, of 26 parameters
    assert stats.chi2(9 * 26).cdf(9 * between.sum()) == pytest.approx(0.5, abs=0.4999)
    assert re.search(r"posteriordb.*diamonds-diamonds: 10 chains of 1,000 draws", truth.how)
    theta = task.unconstrained(task.reference_values())
    assert task.judged(theta).numpy()[:, -1] == pytest.approx(draws["sigma"].ravel())


@with_posteriordb
def test_files_are_those_of_the_tables_and_curvatures_can_be_computed_again():
    stated = csv.reader(Path(tables.__file__).with_name("files.csv").read_text().splitlines())
    assert [[path, digest, str(size)] for path, digest, size in tables.files()] == [*stated][1:]
    task = CLASSES["pdb-kidscore-momiq"]()
    assert tables.curvature(task) == pytest.approx(task.curvature(), rel=1e-3)


def test_names_follow_from_those_of_posteriordb():
    models = [info.name for info in INFOS]
    assert len({*models}) == len(models) >= 33
    for name, (posterior, one) in posteriors().items():
        set_name, _, model = posterior.partition("-")
        assert name == f"pdb-{set_name if len(one.data) > 1 else model}".replace("_", "-").lower()
        assert CLASSES[name].posterior == posterior
        assert posterior in CLASSES[name].__doc__
        assert CLASSES[name]().curvature() > 1
    assert {name for name, _, _ in REGRESSIONS} <= {*models}
    assert regressions.Nes1972.parameters == (Real("beta", 9), Positive("sigma"))


def test_files_have_public_addresses():
    for posterior, _ in posteriors().values():
        files = data.files(posterior)
        assert [file.dataset for file in files] == ["posteriordb"] * 2
        for file in files:
            assert re.fullmatch(
                r"https://raw.githubusercontent.com/stan-dev/posteriordb/[0-9a-f]{40}/posterior_database/"
                r"(data/data|reference_posteriors/draws/draws)/\w+(-\w+)?\.json\.zip", file.urls[0],
            )  # fmt: skip
            assert Path(file.urls[0]).name == Path(file.path).name
    centred = data.files("eight_schools-eight_schools_centered")
    assert centred == data.files("eight_schools-eight_schools_noncentered")


@pytest.mark.parametrize("name", ["nes1972", "nes1973-nes", "", "-", "nes1972-blr", "../nes1972-nes"])
def test_an_unknown_posterior_is_named(name):
    with pytest.raises(PluginError, match=re.escape(f"posteriordb's {name!r}: ")):
        data.files(name)
    with pytest.raises(PluginError, match=r"is not a path of files\.csv"):
        type("Unknown", (Posterior,), {"posterior": name})


def test_without_the_files_an_error_says_how_to_get_them(tmp_path, monkeypatch):
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    task = regressions.Nes1972()
    assert (task.dim(), task.terms(), task.curvature()) == (10, 1330, pytest.approx(1.4e4, rel=0.1))
    assert [wrong(file) for file in task.datasets] == ["missing"] * 2
    for read in (lambda: task.data, task.function_truth, lambda: built(task)):
        with pytest.raises(DataError, match="bench data fetch posteriordb"):
            read()


NESSES = [regressions.Nes1972(), regressions.Nes1976(), regressions.Nes1980(), regressions.Nes1984()]


@pytest.mark.skipif(any(map(wrong, NESSES[0].datasets)), reason="no posteriordb under BENCH_DATA")
def test_the_errors_of_the_reference_are_those_between_its_chains():
    ratios = {"mean": [], "sd": []}
    for task in NESSES:
        truth, draws = task.function_truth(), task.reference_draws()
        chains = np.stack([draws[name] for name in task.judged_names()])  # (K, 1000, 10)
        for name, of_chain, error in (
            ("mean", chains.mean(1), truth.mean_mcse),
            ("sd", chains.std(1), truth.sd_mcse),
        ):
            ratios[name] += [*(of_chain.std(1, ddof=1) / np.sqrt(10) / error)]
    for name, ratio in ratios.items():
        assert np.sqrt(np.mean(np.square(ratio))) == pytest.approx(1, abs=0.15), name
