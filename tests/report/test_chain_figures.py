"""Figures of the chains of single runs: what they compute, which coordinates they show, what they lack."""

import numpy as np
import pytest
from safetensors.numpy import save
from scored import request, store, write_run

from harness import diagnostics
from harness.reporting.rendering import figures
from reports.figures.autocorrelation import Autocorrelation
from reports.figures.chains import SEARCHED, coordinates
from reports.figures.ess_draws import EssDraws, growth
from reports.figures.marginals import Marginals, _target, integrated
from reports.figures.parts import KEEPS, kept_draws
from reports.figures.rank_plots import RankPlots, folded, histograms
from reports.figures.trace import Trace
from tasks.regression.blr import Heart
from tasks.synthetic.bimodal1d import Bimodal1D
from tasks.synthetic.mixture25 import Mixture25

TARGETS = {"mixture25": "tasks.synthetic.mixture25:Mixture25", "blr-heart": "tasks.regression.blr:Heart"}
REPORTS = (Trace, RankPlots, Autocorrelation, EssDraws, Marginals)


def write(results, draws, **changes):
    arrays = {"draws": draws.astype(np.float32), "steps": np.arange(1, len(draws) + 1)}
    chains = draws.shape[1]
    write_run(
        results, chains=chains, metrics={"modes_covered": 25.0}, files={"draws.safetensors": save(arrays)}, **changes
    )


def panels(results):
    from harness.reporting.scores import score_fields

    (score,) = score_fields(store(results), request())
    return kept_draws(score)[0]


@pytest.mark.parametrize("report", REPORTS)
def test_figures_of_one_short_chain_are_drawn(tmp_path, report):
    x = np.random.default_rng(0).normal(size=(9, 1, 14))
    write(tmp_path, x, task="blr-heart")
    built = report().build(store(tmp_path), request())
    (figure,) = built.figures
    assert not built.notes
    assert figure.caption.startswith("blr-heart, protocol csgmcmc:")
    assert figures.drawn(figure, "svg")


@pytest.mark.parametrize("report", REPORTS)
def test_what_is_missing_is_said_with_the_command_that_keeps_it(tmp_path, report):
    write_run(tmp_path, metrics={"modes_covered": 25.0})
    (note,) = report().build(store(tmp_path), request()).notes
    assert KEEPS in note
    write(tmp_path, np.zeros((4, 2, 2)), method="msgld", number=1)
    built = report().build(store(tmp_path), request())
    assert "msgld: 4 draws a chain; this figure needs 8" in built.notes
    assert not built.figures


def test_the_coordinates_shown_are_those_of_the_lowest_ess_and_of_the_largest_error(tmp_path):
    truth = Heart().truth()
    x = truth.mean + truth.sd * np.random.default_rng(0).normal(size=(400, 3, 14))
    x[:, :, 4] = truth.mean[4] + truth.sd[4] * np.random.default_rng(1).normal(size=(8, 3)).repeat(50, axis=0)
    x[:, :, 9] += 2 * truth.sd[9]
    write(tmp_path, x, task="blr-heart")
    first, second = coordinates(panels(tmp_path), truth)
    assert (first.index, first.why) == (4, "lowest ESS (sgld)")
    assert (second.index, second.why) == (9, "largest error of the mean (sgld)")
    assert second.truth == pytest.approx((truth.mean[9], truth.sd[9]))
    assert second.draws["sgld"] == pytest.approx(x[:, :, 9], rel=1e-5)
    assert [one.why for one in coordinates(panels(tmp_path), None)] == ["lowest ESS (sgld)", "next lowest ESS"]


def test_of_very_many_coordinates_evenly_spaced_ones_are_read(tmp_path):
    x = np.random.default_rng(0).normal(size=(20, 2, 3 * SEARCHED))
    x[:, :, -1] = np.repeat([[0.0, 1.0]], 20, axis=0)  # chains that never move
    write(tmp_path, x)
    (panel,) = panels(tmp_path)
    (first, _) = coordinates([panel], None)
    assert first.index == 3 * SEARCHED - 1
    assert "draws" not in vars(panel)  # not all of them were in memory


def test_ranks_of_chains_that_agree_are_uniform_and_a_wide_one_shows_where_they_are_folded():
    x = np.random.default_rng(0).normal(size=(4_000, 5))
    shown, heights = histograms(x)
    assert list(shown) == [0, 1, 2, 3, 4]
    assert heights.mean() == pytest.approx(1)
    assert np.abs(heights - 1).max() < 0.35  # 200 draws in a bin
    x[:, 2] *= 3
    assert histograms(folded(x))[1][2, -1] > 2
    many = np.random.default_rng(1).normal(size=(400, 30))
    many[:, 17] += 4
    shown, heights = histograms(many)
    assert 17 in shown
    assert len(shown) == 8
    halves = histograms(np.linspace(0, 1, 100)[:, None])[1]  # one chain that drifts
    assert halves[0, 0] == pytest.approx(2)
    assert halves[0, -1] == 0


def test_the_autocorrelation_is_that_of_an_autoregression_and_stays_high_for_chains_that_disagree():
    rng, a = np.random.default_rng(0), 0.8
    x = np.zeros((20_000, 4, 1))
    for k in range(1, len(x)):
        x[k] = a * x[k - 1] + np.sqrt(1 - a**2) * rng.normal(size=(4, 1))
    rho = diagnostics.autocorrelation(x)[:, 0]
    assert rho[0] == 1
    assert rho[:8] == pytest.approx(a ** np.arange(8), abs=0.03)
    apart = x + np.array([0, 0, 5, 5.0])[None, :, None]
    assert diagnostics.autocorrelation(apart)[100, 0] > 0.8
    assert np.isnan(diagnostics.autocorrelation(np.ones((10, 2, 1)))).all()


def test_the_effective_size_of_independent_draws_is_their_number():
    counts, bulk, tail = growth(np.random.default_rng(0).normal(size=(2_000, 4)))
    assert counts[-1] == 8_000
    assert bulk[-1] == pytest.approx(8_000, rel=0.1)
    assert tail[-1] == pytest.approx(8_000, rel=0.15)


@pytest.mark.parametrize("task", [Mixture25(), Bimodal1D()])
def test_the_marginal_of_a_density_integrates_to_one_and_has_the_moments_of_the_truth(task):
    truth = task.truth()
    x = np.linspace(truth.mean[0] - 6 * truth.sd[0], truth.mean[0] + 6 * truth.sd[0], 601)
    density = integrated(task, task.truth(), 0, x)
    share = density / density.sum()
    if hasattr(task, "weights"):
        assert density.sum() * (x[1] - x[0]) == pytest.approx(1, abs=1e-3)
    assert (share * x).sum() == pytest.approx(truth.mean[0], abs=1e-3)
    assert np.sqrt((share * (x - truth.mean[0]) ** 2).sum()) == pytest.approx(truth.sd[0], rel=1e-3)


def test_a_target_that_is_known_by_its_moments_says_so(tmp_path):
    write(tmp_path, np.random.default_rng(0).normal(size=(50, 2, 14)), task="blr-heart")
    (one, _) = coordinates(panels(tmp_path), Heart().truth())
    how, x, density = _target(Heart(), Heart().truth(), one)
    assert how == "normal, with its mean and sd"
    assert density.sum() * (x[1] - x[0]) == pytest.approx(1, abs=1e-3)


def test_draws_with_weights_count_by_them_or_the_note_says_that_they_do_not(tmp_path):
    draws = np.random.default_rng(0).normal(size=(50, 2, 2)).astype(np.float32)
    logs = np.zeros((50, 2), dtype=np.float32)
    logs[:25] = -50
    arrays = {"draws": draws, "steps": np.arange(50), "log_weights": logs}
    write_run(tmp_path, chains=2, metrics={"modes_covered": 1.0}, files={"draws.safetensors": save(arrays)})
    (panel,) = panels(tmp_path)
    assert panel.shares[:50].sum() == pytest.approx(0, abs=1e-12)
    assert panel.shares.sum() == pytest.approx(1)
    assert Trace().build(store(tmp_path), request()).notes == [
        "sgld: its draws have weights, which this figure ignores"
    ]
    assert not Marginals().build(store(tmp_path), request()).notes
