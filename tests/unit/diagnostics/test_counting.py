"""Counting by C++ gives NumPy's numbers, bit for bit, at ordinary and at odd numbers."""

from __future__ import annotations

import numpy as np
import pytest

from harness.analysis.diagnostics import counting
from harness.system.cpp import CompilerError

ODD = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e308, -1e308, 5e-324])


def both(monkeypatch, function, *arguments):
    compiled = function(*arguments)

    def refuse(_):
        raise CompilerError("none")

    with monkeypatch.context() as patch:
        patch.setattr(counting, "built", refuse)
        plain = function(*arguments)
    assert compiled.dtype == plain.dtype
    assert np.array_equal(compiled, plain, equal_nan=True)


@pytest.mark.parametrize("shape", [(1, 1), (7, 1), (8, 1), (1, 9), (50, 3), (33, 40), (0, 4)])
@pytest.mark.parametrize("cuts", [[], [0.0], [-1.0, -0.5, -0.5, 0.0, 0.3, 2.0], np.linspace(-2, 2, 39)], ids=len)
@pytest.mark.parametrize("weighted", [False, True])
def test_cells_of_quantiles(shape, cuts, weighted, monkeypatch):
    rng = np.random.default_rng(0)
    z = rng.standard_normal(shape)
    z.flat[::3] = rng.choice([*ODD, *cuts], size=z.flat[::3].size)
    weights = rng.exponential(size=shape) if weighted else np.broadcast_to(1.0, shape)
    both(monkeypatch, counting.below, z, weights, np.asarray(cuts, dtype=float))
    both(monkeypatch, counting.below, np.asfortranarray(z), weights, np.asarray(cuts, dtype=float))


@pytest.mark.parametrize("n", [0, 1, 8, 9, 1001])
@pytest.mark.parametrize(("centres", "dim"), [(1, 1), (25, 2), (5, 3), (2, 20)])
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_nearest_centres(n, centres, dim, monkeypatch):
    rng = np.random.default_rng(1)
    means = rng.integers(-2, 3, size=(centres, dim)).astype(float)
    x = rng.integers(-4, 5, size=(n, dim)) / 2  # many ties
    both(monkeypatch, counting.nearest, x, means)
    x.flat[::5] = rng.choice(ODD, size=x.flat[::5].size)
    both(monkeypatch, counting.nearest, x, means)
