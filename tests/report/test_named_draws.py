"""Draws of constrained parameters and of regressions, by name: `Draws.functions` and `to_arviz`."""

from dataclasses import dataclass

import numpy as np
import pytest

import harness
from harness.tasks import Network, NetworkTask, Protocol
from tasks.functions import ConstrainedTask, Positive, Real
from tasks.likelihoods import Regression


@dataclass(frozen=True, kw_only=True)
class NormalAndTwoExponentials(ConstrainedTask):
    """mu ~ N(0, 1), tau_1 and tau_2 ~ Exponential(1)."""

    parameters = Real("mu"), Positive("tau", 2)
    protocols = (Protocol("default", "ours", {"smoke": 40}),)

    def log_density(self, values):
        return -(values["mu"] ** 2) / 2 - values["tau"].sum(1)


@dataclass(frozen=True, kw_only=True)
class Line(NetworkTask):
    """A line through 30 points, with known noise."""

    protocols = (Protocol("default", "ours", {"smoke": 40}),)
    likelihood, prior_precision, batch = Regression(sigma=0.5), 1.0, 10

    def network(self):
        from torch import nn

        return Network(lambda: nn.Linear(2, 1))

    def arrays(self, part):
        x = np.random.default_rng(len(part)).normal(size=(30, 2)).astype(np.float32)
        return {"x": x, "label": x[:, 0]}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    settings = {"schedule.step_size": 1e-3, "run.thin": 1, "run.burn_in": 10}
    asked = {"seeds": [0], "chains": 2, "budget": "steps=40", "settings": settings}
    bench = harness.Bench(tmp_path_factory.mktemp("named"))
    return bench.run("sgld", [NormalAndTwoExponentials, Line], **asked, workers=1, devices="cpu", draws="all")


def test_functions_of_draws_are_on_the_constrained_scale(results):
    draws = results.draws(task="normal-and-two-exponentials")
    values = draws.functions()
    assert {name: each.shape for name, each in values.items()} == {"mu": (2, 30, 1), "tau": (2, 30, 2)}
    np.testing.assert_allclose(values["mu"][..., 0], draws.draws[..., 0], rtol=1e-6)
    np.testing.assert_allclose(values["tau"], np.exp(draws.draws[..., 1:].astype(np.float64)), rtol=1e-6)
    with pytest.raises(harness.UsageError, match="line names no functions of theta"):
        results.draws(task="line").functions()


def test_arviz_gets_named_parameters_and_mean_predictions(results):
    pytest.importorskip("arviz_base")
    posterior = results.to_arviz(task="normal-and-two-exponentials").posterior
    expected = results.draws(task="normal-and-two-exponentials").functions()
    assert {*posterior.data_vars} == {"mu", "tau"}
    np.testing.assert_array_equal(posterior["tau"], expected["tau"])
    draws = results.draws(task="line")
    prediction = results.to_arviz(task="line", rows=7).posterior["prediction"]
    assert prediction.dims == ("chain", "draw", "row")
    x = Line().arrays("test")["x"][:7]
    weight, bias = draws.draws[..., :2], draws.draws[..., 2:]
    np.testing.assert_allclose(prediction, weight @ x.T + bias, rtol=1e-4, atol=1e-5)


@dataclass(frozen=True, kw_only=True)
class Improper(NetworkTask):
    """A network without a prior, which no run can begin on."""

    protocols = (Protocol("default", "ours", {"smoke": 40}),)

    def network(self):
        from torch import nn

        return Network(lambda: nn.Linear(2, 3))

    def arrays(self, part):
        return {"x": np.zeros((30, 2), dtype=np.float32), "label": np.arange(30) % 3}


def test_if_no_run_begins_that_is_the_error(tmp_path):
    said = []
    bench = harness.Bench(tmp_path, say=said.append)
    with pytest.raises(harness.RunError, match="none of the 1 runs began"):
        bench.run(
            "sgld", Improper, seeds=[0], settings={"schedule.step_size": 1e-3}, workers=1, devices="cpu", budget="smoke"
        )
    assert any("Improper has no prior" in line for line in said)
