"""Reports over several tasks: known answers, explicit gaps, and intervals that hold what they should."""

import numpy as np
import pytest
from matplotlib.text import Text
from scored import final_errors, request, store, time_rows, write_run

from harness.analysis.diagnostics import seed_counts
from harness.reporting.rendering.figures import picture
from harness.reporting.report import Request
from harness.system.errors import UsageError
from reports.across import across
from reports.figures.pareto import Pareto, pareto_front
from reports.figures.profile import Profile, profiles
from reports.figures.ranks import Ranks, cliques, critical_difference, friedman, mean_ranks

ERRORS = {"sgld": (0.1, 0.4, 0.05), "csgld": (0.2, 0.1, 0.06), "sghmc": (0.4, 2.0, 0.05)}
TASKS = ("mixture25", "mixture5", "gaussian2d")
SEEDS = 5


def write(results, method, task, error, seeds=SEEDS, **changes):
    """Runs whose joint error is near `error`; the same noise for every method."""
    for seed in range(seeds):
        noise = np.random.default_rng(seed).normal(size=(8, 1)) * 0.02 + 1
        low = final_errors(np.sqrt(error) * noise)
        write_run(
            results, method=method, task=task, seed=seed, chains=8, curves=low, metrics={"mean_error": 0.1}, **changes
        )


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    for method, errors in ERRORS.items():
        for task, error in zip(TASKS, errors, strict=True):
            write(folder, method, task, error)
    write(folder, "psgld", "mixture25", 0.3)
    write(folder, "msgld", "mixture25", 0.3, seeds=3)
    for seed in range(SEEDS):
        write_run(folder, method="sgnht", task="mixture25", seed=seed, chains=8, status="diverged")
    write(folder, "sgld", "mixture25", 9.0, budget="paper", steps=9)  # another field, with fewer methods
    time_rows(folder)
    return store(folder)


def test_methods_that_lack_a_task_are_left_out_and_named(results):
    table = across(results, Request())
    assert table.methods == ["csgld", "sghmc", "sgld"]
    assert [field.task for field in table.tasks] == sorted(TASKS)
    assert any(text.startswith("psgld: no value on") for text in table.left_out)
    assert any("msgld" in text and "fewer than five seeds" in text for text in table.left_out)
    assert table.values[table.methods.index("sgld"), 1] == pytest.approx(0.1, rel=0.05)
    one = across(results, Request(tasks=("mixture25",)))
    assert one.methods == ["csgld", "psgld", "sghmc", "sgld", "sgnht"]
    assert np.isinf(one.values[-1]).all()  # diverged counts, last


def test_tuned_settings_stand_for_a_method(tmp_path):
    for method in ("sgld", "csgld"):
        write(tmp_path, method, "mixture25", 0.3)
    tuned = {"schedule.step_size": {"value": 0.07, "provenance": "tuned", "source": "study tuned: 20 trials"}}
    params = {"step_size": 0.07, "temperature": 1.0}
    write(tmp_path, "sgld", "mixture25", 0.1, params=params, origins=tuned)
    by_user = {"schedule.step_size": {"value": 0.08, "provenance": "user", "source": ""}}
    write(tmp_path, "sgld", "mixture25", 0.05, params={**params, "step_size": 0.08}, origins=by_user)
    table = across(store(tmp_path), Request())
    assert table.values[table.methods.index("sgld"), 0] == pytest.approx(0.1, rel=0.05)
    assert any(note.endswith("stands for the method: sgld") for note in table.notes)


def test_a_diverged_row_is_the_worst_where_the_highest_value_is_best(tmp_path):
    for method, status in (("sgld", "done"), ("csgld", "done"), ("sgnht", "diverged")):
        for seed in range(SEEDS):
            write_run(tmp_path, method=method, seed=seed, metrics={"accuracy": 0.9}, status=status)
    table = across(store(tmp_path), Request(metric="accuracy"))
    assert table.methods == ["csgld", "sgld", "sgnht"]
    assert table.values[:, 0].tolist() == [-0.9, -0.9, np.inf]
    assert (table.replicates[-1] == np.inf).all()


def test_ranks_of_known_errors(results):
    ranks = Ranks().build(results, Request())
    by_method = {record["method"]: record for record in ranks.records}
    assert by_method["sgld"]["ranks"] == {"gaussian2d": 1.5, "mixture25": 1.0, "mixture5": 2.0}
    assert by_method["csgld"]["mean_rank"] == pytest.approx(2.0)
    assert [record["method"] for record in ranks.records] == ["sgld", "csgld", "sghmc"]
    assert all(record["low"] <= record["mean_rank"] <= record["high"] for record in ranks.records)


def test_mean_ranks_have_a_figure_from_five_tasks_on(tmp_path):
    for tasks in (4, 5):
        for method, error in (("sgld", 0.1), ("csgld", 0.2)):
            write(tmp_path, method, f"task-{tasks}", error)
            for k in range(4 if tasks == 4 else 0):
                write(tmp_path, method, f"task-{k}", error)
        names = tuple(f"task-{k}" for k in (0, 1, 2, 3, 5)[:tasks])
        ranks = Ranks().build(store(tmp_path), Request(tasks=names))
        assert len(ranks.figures) == (tasks == 5)
        assert any("need 5 tasks, and these are 4" in note for note in ranks.notes) == (tasks == 4)
        assert all((record["critical_difference"] is None) == (tasks == 4) for record in ranks.records)


def test_a_task_that_a_method_cannot_run_on_counts_as_unsolved_in_a_profile(tmp_path):
    for task in ("mixture25", "blr-heart", "bimodal1d"):
        for method, error in (("sgld", 0.1), ("msgld", 0.2), ("mclmc", 0.05), ("asgld", 0.1)):
            if task != "bimodal1d" or method not in {"mclmc", "asgld"}:
                write(tmp_path, method, task, error)
    filled = store(tmp_path)
    asked = request({"mclmc": "plugins.samplers.mclmc:MCLMC", "bimodal1d": "tasks.synthetic.bimodal1d:Bimodal1D"})
    built = Profile().build(filled, asked)
    solved = {record["method"]: record["share"] for record in built.records if np.isinf(record["factor"])}
    assert solved == pytest.approx({"sgld": 1, "msgld": 1, "mclmc": 2 / 3})
    (figure,) = built.figures
    assert "Cannot run: mclmc: on bimodal1d (needs 2 dimensions)." in figure.caption
    assert "Left out: asgld: no value on bimodal1d (no runs)." in figure.caption
    shown = [text.get_text() for text in picture(figure).findobj(Text)]
    assert any("without a value on all tasks: asgld" in " ".join(text.split()) for text in shown)
    assert across(filled, asked).methods == ["msgld", "sgld"]  # of ranks


def test_the_profile_of_known_errors(results):
    profile = Profile().build(results, Request())
    share = {(record["method"], record["factor"]): record["share"] for record in profile.records}
    assert share["sgld", 1.0] == pytest.approx(2 / 3)
    assert share["csgld", 10.0] == 1
    assert share["sghmc", np.inf] == pytest.approx(2 / 3)  # a joint error of 2 is no solution
    with pytest.raises(UsageError, match="no field has the metric"):
        Profile().build(results, Request(metric="joint_eror"))


def test_without_a_solved_task_there_is_no_profile_to_draw(tmp_path):
    for method in ("sgld", "csgld"):
        write(tmp_path, method, "mixture25", 3.0)
    profile = Profile().build(store(tmp_path), Request())
    assert not profile.figures
    assert "no method solved any task" in profile.notes[0]
    assert {record["share"] for record in profile.records} == {0.0}


def test_the_front_is_of_rows_that_no_other_beats_in_both(results):
    assert pareto_front([(1, 0.5), (2, 0.2), (3, 0.2), (2, 0.6), (0.5, 3.0), (1, 0.5)]) == [
        True,
        True,
        *[False] * 3,
        True,
    ]
    front = Pareto().build(results, Request(tasks=("mixture25",)))
    assert {record["method"] for record in front.records} == {"csgld", "psgld", "sghmc", "sgld"}  # sgnht diverged
    with pytest.raises(UsageError, match="passes_to_low_error"):
        Pareto().build(results, Request(metric="rhat"))


def test_without_a_common_task_there_is_a_note(tmp_path):
    write(tmp_path, "sgld", "mixture25", 0.1)
    for report in (Ranks, Profile, Pareto):
        assert report().build(store(tmp_path), Request()).notes


def test_rows_that_were_not_timed_have_no_seconds(tmp_path):
    for method in ("sgld", "csgld"):
        write(tmp_path, method, "mixture25", 0.1)
    assert Pareto().build(store(tmp_path), Request()).notes == ["no two rows have seconds; `bench time` measures them"]
    time_rows(tmp_path, 20.0)
    assert {r["cost_value"] for r in Pareto().build(store(tmp_path), Request()).records} == {20.0}


def test_friedman_and_nemenyi_by_the_example_of_the_paper():
    """Demsar 2006, 3.2.2: 4 classifiers on 14 data sets: F_F = 3.69 with (3, 39), CD = 1.25 (of alpha .05)."""
    from scipy.stats import f

    mean = np.array([3.143, 2.000, 2.893, 1.964])
    chi = 12 * 14 / (4 * 5) * ((mean**2).sum() - 4 * 25 / 4)
    assert 13 * chi / (14 * 3 - chi) == pytest.approx(3.69, abs=0.02)
    assert critical_difference(4, 14) == pytest.approx(2.569 * np.sqrt(4 * 5 / (6 * 14)), rel=1e-3)
    ranks = np.array([[1.0, 1, 2, 1, 1], [2, 3, 1, 2, 2], [3, 2, 3, 3, 3]])
    chi = 12 * 5 / (3 * 4) * ((ranks.mean(axis=1) - 2) ** 2).sum()
    assert friedman(ranks) == pytest.approx(f.sf(4 * chi / (10 - chi), 2, 8))
    assert friedman(np.full((3, 4), 2.0)) is None
    assert cliques(np.array([1.0, 1.5, 3.0, 3.4]), 1.6) == [(0, 1), (1, 2), (2, 3)]
    assert cliques(np.array([1.0, 4.0]), 1.0) == []


def simulated(rng, truth, seeds, spread=0.25):
    """Values (M, T) and replicates of errors that are means over seeds about the truth (M, T)."""
    each = truth[:, :, None] * np.exp(spread * rng.normal(size=(*truth.shape, seeds)) - spread**2 / 2)
    return each.mean(axis=2), each @ seed_counts(seeds).T / seeds


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [5, 10])
def test_intervals_hold_the_ranks_and_shares_of_the_true_errors(seeds):
    """Of 6 methods on 8 tasks, 200 times. Where true errors tie nearly, noise pulls mean ranks to the middle."""
    rng = np.random.default_rng(seeds)
    held, shares = [], []
    for _ in range(200):
        truth = np.exp(rng.normal(size=(6, 8)) - 2)
        values, replicates = simulated(rng, truth, seeds)
        wanted = mean_ranks(truth, truth[:, :, None], 5).mean
        ranks = mean_ranks(values, replicates, seeds)
        held.append((ranks.low - 1e-9 <= wanted) & (wanted <= ranks.high + 1e-9))
        right, estimated = profiles(truth, truth[:, :, None], 1.0), profiles(values, replicates, 1.0)
        for tau in (1.0, 2.0, 5.0):
            low, high = estimated.interval(tau)
            shares.append((low - 1e-9 <= right.share(tau)) & (right.share(tau) <= high + 1e-9))
    assert np.mean(held) >= 0.93  # 0.97 and 0.94
    assert np.mean(shares) >= 0.93  # 0.98 and 0.99: shares are discrete
