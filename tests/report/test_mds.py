"""Pictures of the space of weights: places that keep distances, ratios that are those of the clusters."""

import numpy as np
import pytest
from safetensors.numpy import save
from scored import store, write_run

from harness.reporting.report import Request
from reports.figures.mds import Scaling, distances, mean_distances, scaled


def sketches(spread, cycles=3, draws=5, chains=1):
    """Draws around a centre for each cycle of each chain, centres at distances near `spread`, draws near 1."""
    generator = np.random.default_rng(0)
    centres = spread * generator.standard_normal((cycles, chains, 1024)) / 1024**0.5 / 2**0.5
    noise = generator.standard_normal((cycles, draws, chains, 1024)) / 1024**0.5 / 2**0.5
    return {
        "sketch": (centres[:, None] + noise).reshape(-1, 1024).astype(np.float32),
        "cycle": np.repeat(np.arange(cycles), draws * chains),
        "chain": np.tile(np.arange(chains), cycles * draws),
    }


def test_points_in_a_plane_get_their_distances_back():
    points = np.random.default_rng(1).standard_normal((12, 2)) * [300, 100]
    apart = distances(points)
    assert apart[3, 7] == pytest.approx(np.linalg.norm(points[3] - points[7]))
    places, stress = scaled(apart)
    assert stress < 0.005
    assert np.abs(distances(places) - apart).max() < 0.02 * apart.max()
    assert places[:, 0].var() > places[:, 1].var()
    assert np.array_equal(scaled(apart)[0], places)
    error = ((distances(places) - apart) ** 2).sum() / (apart**2).sum()
    assert stress == pytest.approx(error**0.5)


def test_means_are_over_pairs_within_cycles_between_them_and_between_chains():
    at = np.array([[0.0], [1.0], [10.0], [14.0], [100.0]])
    means = mean_distances(distances(at), np.array([0, 0, 1, 1, 0]), np.array([0, 0, 0, 0, 1]))
    assert means["within"] == pytest.approx((1 + 4) / 2)
    assert means["between_cycles"] == pytest.approx(np.mean([10, 14, 9, 13]))
    assert means["between_chains"] == pytest.approx(np.mean([100, 99, 90, 86]))
    assert means["ratio"] == pytest.approx(11.5 / 2.5)
    alone = mean_distances(distances(at), np.arange(5), np.zeros(5))
    assert alone["within"] is None
    assert alone["ratio"] is None


def test_what_has_no_sketches_is_said_where_it_is_asked_for(tmp_path):
    assert not Scaling().build(store(tmp_path), Request()).records
    write_run(tmp_path, metrics={"modes_covered": 2.0})
    short = {name: leaf[:2] for name, leaf in sketches(1.0).items()}
    write_run(
        tmp_path, method="csgld", metrics={"test_error": 2.0}, files={"arrays.safetensors": save(short)}, number=1
    )
    assert not Scaling().build(store(tmp_path), Request()).notes
    asked = Scaling().build(store(tmp_path), Request(tasks=("mixture25",)))
    assert asked.notes == [f"{name}: no finished run with sketches of three draws" for name in ("csgld", "sgld")]
