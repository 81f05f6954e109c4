"""The exact analysis of csgld against a simulation of the same thing, and its rates against the theorem's."""

import numpy as np
import pytest

from harness import linear
from harness.reporting.report import Request
from plugins.papers import bench_papers
from plugins.papers.files import read
from reports.figures import theorem1
from reports.figures.theorem1 import START, Theorem1, errors
from reports.tables import appendices, theorem3
from reports.tables.theorem3 import Theorem3


@pytest.mark.parametrize("noise", [True, False])
def test_bias_and_error_are_those_of_a_simulation(noise):
    steps, chains, step_size = 150, 40_000, 0.3
    exact = errors(step_size, noise=noise, steps=steps)
    path = appendices.cyclical(step_size, appendices.CYCLE, steps, noise=noise)
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


def claimed(*tables):
    """What the papers' files say of theorems: (table, finding, evidence), in order."""
    told = [claim for file in read(bench_papers())[0] for claim in file.claims if claim["table"] in tables]
    return [(claim["table"], claim["finding"], claim["evidence"]) for claim in told]


def test_the_ledger_tells_of_theorems_3_1_and_3_2_what_their_analysis_finds():
    records = Theorem3().build(None, Request()).records
    assert claimed("Theorem 3.1", "Theorem 3.2") == [(r["table"], r["finding"], r["evidence"]) for r in records]
    assert {r["finding"] for r in records} == {"fails"}


def test_msgld_tends_to_half_the_temperature_and_asgld_to_a_sharper_law():
    assert [round(error, 3) for error in theorem3.msgld_errors()] == [0.248, 0.245, 0.234]  # (1 - 1/(1 + a))^2 = 0.25
    assert theorem3.asgld_variance() == pytest.approx(0.4749, abs=1e-4)  # as its page has it: 0.475


def test_the_rates_are_the_theorems_with_noise_and_the_bias_stays_without(monkeypatch):
    monkeypatch.setattr(theorem1, "STEP_SIZES", theorem1.SMALL)
    built = Theorem1().build(None, Request())
    fitted = {(r["kind"], r["of"]): (r["fitted"], r["theorem"]) for r in built.records if "fitted" in r}
    for of in ("bias beyond its limit", "limit of the bias", "mean squared error beyond its limit"):
        exponent, theorem = fitted["noise always on", of]
        assert exponent == pytest.approx(theorem, abs=0.1)
    findings = [r for r in built.records if "evidence" in r]
    for table in ("Theorem 1", "Theorem 2", "Appendix E", "Appendix G"):
        assert claimed(table) == [(table, r["finding"], r["evidence"]) for r in findings if r["table"] == table]
    limits = {r["alpha_0"]: r["bias_limit"] for r in built.records if "alpha_0" in r and r["kind"].startswith("T = 0")}
    assert limits[0.01] < limits[0.1] < 0
    assert [figure.name for figure in built.figures] == ["theorem1"]


def test_the_variances_of_the_appendices_are_those_of_sgld():
    trajectory = appendices.cyclical(0.3, 10, 60, noise=False)
    start = appendices.START * np.eye(1)
    for k, curvature in enumerate(appendices.CURVATURES):
        exact = linear.propagate(Request().plugin("samplers", "sgld"), trajectory, (curvature,), start)[:, 0, 0]
        assert appendices._variances(trajectory, appendices.CURVATURES)[:, k] == pytest.approx(exact, rel=1e-12)
