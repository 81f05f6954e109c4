"""The exact analysis of csgld against a simulation of the same thing, and its rates against the theorem's."""

import tomllib

import numpy as np
import pytest

from harness.report import Request
from plugins.papers import bench_papers
from reports.figures import theorem1
from reports.figures.theorem1 import START, Theorem1, errors


@pytest.mark.parametrize("noise", [True, False])
def test_bias_and_error_are_those_of_a_simulation(noise):
    steps, chains, step_size = 150, 40_000, 0.3
    exact = errors(step_size, noise=noise, steps=steps)
    path = theorem1._trajectory(step_size, noise=noise, steps=steps)
    rng = np.random.default_rng(0)
    x = np.sqrt(START) * rng.standard_normal(chains)
    total, kept = np.zeros(chains), 0
    for h, T, keep in zip(path.step_size, path.temperature, path.keep, strict=True):
        x = x - h * x + np.sqrt(2 * h * T) * rng.standard_normal(chains)
        if keep:
            total, kept = total + x**2, kept + 1
    off = total / kept - 1
    assert exact.steps[-1] == np.flatnonzero(path.keep)[-1] + 1
    assert abs(off.mean() - exact.bias[-1]) < 5 * off.std() / np.sqrt(chains)
    assert abs((off**2).mean() - exact.mse[-1]) < 5 * (off**2).std() / np.sqrt(chains)
    assert exact.distance[-1] == pytest.approx(abs(x.std() - 1), abs=5 / np.sqrt(2 * chains))


def told(fitted):
    """What the ledger tells of the claims is what the analysis finds."""
    paper = tomllib.loads(next(path for path in bench_papers() if path.stem == "csgmcmc").read_text(encoding="utf-8"))
    (table,) = (claim for claim in paper["claim"] if claim["table"] == "Theorem 1")
    exponents = {of: f"{found:.2f}" for (kind, of), (found, _) in fitted.items() if kind == "noise always on"}
    bias, mse = table["claims"]
    for claim, over_k, over_alpha in [
        (bias, "bias beyond its limit", "limit of the bias"),
        (mse, "mean squared error beyond its limit", "limit of the mean squared error"),
    ]:
        words = f"are {exponents[over_k]} over K and {exponents[over_alpha]} over alpha_0"
        assert (claim["finding"], words in claim["evidence"]) == ("holds", True), words
    kind = "T = 0 while it explores"
    limits = [f"{fitted[kind, of][0]:.2f}" for of in ("limit of the bias", "limit of the mean squared error")]
    assert f"exponent {limits[0]}, and {limits[1]} for its square" in table["notes"]


def test_the_rates_are_the_theorems_with_noise_and_the_bias_stays_without(monkeypatch):
    monkeypatch.setattr(theorem1, "STEP_SIZES", theorem1.SMALL)
    made = Theorem1().build(None, Request())
    fitted = {(r["kind"], r["of"]): (r["fitted"], r["theorem"]) for r in made.records if "fitted" in r}
    for of in ("bias beyond its limit", "limit of the bias", "mean squared error beyond its limit"):
        found, theorem = fitted["noise always on", of]
        assert found == pytest.approx(theorem, abs=0.1)
    told(fitted)
    limits = {r["alpha_0"]: r["bias_limit"] for r in made.records if r["kind"].startswith("T = 0") and "alpha_0" in r}
    assert limits[0.01] < limits[0.1] < 0
    assert [figure.name for figure in made.figures] == ["theorem1"]
