from __future__ import annotations

import math

import pytest

from harness import conventions

CASES = [(0.02, 1.0, 1), (1e-6, 1.0, 50_000), (3e-7, 2e-5, 50_000), (0.01, 0.5, 270)]


def here(h, T):
    """Drift for a full-data gradient of 1, and noise variance."""
    return pytest.approx((h, 2 * h * T))


@pytest.mark.parametrize(("h", "T", "N"), CASES)
def test_drift_and_noise_are_those_of_the_step_here(h, T, N):
    welling_teh = conventions.welling_teh(h, T).settings["epsilon"]
    assert (welling_teh / 2 / T, welling_teh) == here(h, T)
    mean_loss = conventions.mean_loss(h, T, N).settings
    assert (mean_loss["lr"] / N, 2 * mean_loss["lr"] * mean_loss["T"] / N) == here(h, T)
    posteriors = conventions.posteriors(h, T, N).settings
    assert (posteriors["lr"] / N, 2 * posteriors["lr"] * posteriors["temperature"]) == here(h, T)
    devinterp = conventions.devinterp(h, T, N).settings
    assert (devinterp["lr"] / 2 * devinterp["nbeta"] / N, devinterp["lr"]) == here(h, T)


@pytest.mark.parametrize("mass", [1.0, 4.0])
def test_physical_sghmc_makes_the_same_step(mass):
    h, alpha, T, gradient, v, xi = 0.01, 0.1, 0.7, 3.0, -0.2, 1.3
    settings = conventions.physical(h, alpha, mass).settings
    epsilon, C, M = settings["epsilon"], settings["C"], settings["M"]
    r = M * v / epsilon
    r = r - epsilon * gradient - epsilon * C * r / M + math.sqrt(2 * C * epsilon * T) * xi
    ours = (1 - alpha) * v - h * gradient + math.sqrt(2 * alpha * h * T) * xi
    assert epsilon * r / M == pytest.approx(ours)


def test_published_numbers():
    assert conventions.mean_loss(0.5 / 50_000, 2e-5, 50_000).settings["lr"] == pytest.approx(0.5)
    assert conventions.posteriors(1e-6, 1.0, 50_000).settings["temperature"] == pytest.approx(1 / 50_000)
    assert conventions.momentum(0.01, 0.1, 10).settings == {"lr": 0.1, "momentum": 0.9}


def test_what_divides_by_the_temperature_is_left_out_at_zero():
    names = [e.convention for e in conventions.equivalents(0.1, 0.0, 10, alpha=0.1)]
    assert "devinterp" not in names
    assert len(names) == 4
    assert len(conventions.equivalents(0.1, 1.0, 10)) == 4
