"""`bench site` on made-up results: pages of tasks, methods, rows and suites, linked both ways, and what moved."""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter

import pytest
from nights import TINY, fabricate, write_suite
from published import Page, check_pages, files
from scored import write_run
from threadpoolctl import threadpool_info, threadpool_limits

from harness.cli.app import run
from harness.contracts.randomness import TUNING_SEED
from harness.reporting import scores
from harness.reports import Report
from harness.results.store import Store
from harness.runs import plan
from harness.runs.source import source_hash
from plugins.nights.site import build, pictures
from plugins.nights.site.contents import paragraphs
from plugins.nights.site.model import Section

SUITE = TINY.replace('"coverage", ', "")


def values(spec, factor=1.0):
    return {"wasserstein2": factor * (1 + 0.01 * (spec.seed**2 % 5)), "modes_covered": 4.0 + spec.seed % 2}


def better(spec):
    return values(spec, 0.3 + 0.001 * spec.seed if spec.method == "sgld" else 1.0)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with the results of two nights, r, the pages of the second, night, and those of all results, all."""
    here = tmp_path_factory.mktemp("site")
    suite = write_suite(here, SUITE)
    with pytest.MonkeyPatch.context() as patch:
        for word, numbers in (("a", values), ("b", better)):
            patch.setattr(plan, "source_hash", lambda target, word=word: source_hash(target)[:-8] + word * 8)
            fabricate(here / "r", suite, numbers)
            assert run(["--results", str(here / "r"), "nightly", str(suite), "--out", str(here / "night")]) == 0
    assert site(here / "r", here / "all") == 0
    return here


def site(results, out, *more):
    return run(["--results", str(results), "site", "--report", "leaderboard", "--out", str(out), *more])


@pytest.mark.parametrize("which", ["night", "all"])
def test_every_row_leads_to_its_runs_and_back(home, which):
    pages = check_pages(home / which)
    rows = Store(home / "r").rows("select group_key[:16] as row, run_key[:12] as run, method, task from result")
    shown = [row for row in rows if f"rows/{row['row']}.html" in pages]
    assert len(shown) == {"all": 20, "night": 10}[which]
    for row in shown:
        page, task, method = f"rows/{row['row']}.html", f"tasks/{row['task']}.html", f"methods/{row['method']}.html"
        assert f"bench replay {row['run']}" in (home / which / page).read_text()
        for name in ("leaderboard.html", "rows.html", task, method):
            assert page in {link.removeprefix("../") for link in pages[name].links}, name
        assert {f"../{task}", f"../{method}"} <= set(pages[page].links)
        assert task in pages["index.html"].links


def test_a_row_leaves_out_the_trials_of_its_tuning(tmp_path):
    runs = [write_run(tmp_path / "r", seed=seed, metrics={"wasserstein2": 1.0}) for seed in (0, TUNING_SEED)]
    assert len({one["group"] for one in runs}) == 1
    assert site(tmp_path / "r", tmp_path / "pages") == 0
    (page,) = (tmp_path / "pages" / "rows").glob("*.html")
    assert [one["key"][:12] in page.read_text() for one in runs] == [True, False]


def test_reports_are_shown_in_the_order_that_was_asked_for(monkeypatch):
    """They are built from the last."""
    monkeypatch.setattr(build, "section", lambda name, *_: Section(name, ""))
    monkeypatch.setattr(build, "begin", lambda *_: None)
    assert [shown.name for shown in build.sections_of(["a", "b", "c"], None, None, None)] == ["a", "b", "c"]


def test_all_reports_are_prepared_before_the_first_is_built(home, tmp_path, monkeypatch):
    steps = []
    monkeypatch.setattr(Report, "prepare", lambda self, *_: steps.append(f"prepare {self.name}"))
    monkeypatch.setattr(build, "section", lambda name, *_: steps.append(f"build {name}") or Section(name, ""))
    run(["--results", str(home / "r"), "site", "--out", str(tmp_path / "pages"), "--report", "ess,pareto"])
    assert steps[:4] == ["prepare ess", "prepare pareto", "build pareto", "build ess"]


def test_reports_leave_the_other_processors_to_the_figures(home, tmp_path, monkeypatch):
    """NumPy's threads would wait for each other beside the processes that draw, which doubles the time."""
    seen = []
    monkeypatch.setattr(build, "sections_of", lambda *_: seen.extend(threadpool_info()) or [])
    with threadpool_limits(2, user_api="blas"):
        run(["--results", str(home / "r"), "site", "--out", str(tmp_path / "pages"), "--report", "ess"])
    threads = [library["num_threads"] for library in seen if library["user_api"] == "blas"]
    assert {*threads} == {1}


def test_a_row_has_its_settings_with_sources_its_commands_and_its_code(home):
    key = Store(home / "r").rows("select max(group_key) as key from result where method = 'hmc'")[0]["key"]
    text = (home / "all" / "rows" / f"{key[:16]}.html").read_text().replace("<wbr>", "")
    assert re.search(r"schedule.step_size.*untuned.*of the stability limit", text)
    assert "bench run --sampler hmc --schedule constant --task mixture5@adaptive-drift --budget smoke" in text
    assert "aaaaaaaaaaaa" in text  # the commit


def test_the_history_names_what_changed_and_the_commits(home):
    text = (home / "all" / "suites" / "tiny.html").read_text()
    (line,) = [line for line in text.splitlines() if "wasserstein2" in line]
    assert re.search(r"sgld on mixture5.*better.*sampler source, schedule source, task source.*aaaaaaaaaa", line)
    assert line in (home / "night" / "suites" / "tiny.html").read_text()


def test_equal_results_give_equal_pages_and_are_not_written_again(home, capsys, tmp_path):
    shutil.copytree(home / "r", tmp_path / "r")
    assert site(tmp_path / "r", tmp_path / "again") == 0
    assert files(tmp_path / "again") == files(home / "all")
    capsys.readouterr()
    assert site(tmp_path / "r", tmp_path / "again") == 0
    assert "the pages are as before" in capsys.readouterr().err


def test_what_reports_share_is_computed_once_and_a_figure_is_drawn_once(home, tmp_path, monkeypatch):
    counts = Counter()

    def counted(where, name, key):
        function = getattr(where, name)
        monkeypatch.setattr(where, name, lambda *given, **by: (counts.update([key(*given)]), function(*given, **by))[1])

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0}, raising=False)
    counted(scores, "load_groups", lambda *_: "groups")
    counted(build, "section", lambda name, *_: name)
    counted(pictures, "_draw", lambda _, path: path)
    chosen = ("leaderboard", "best", "needed-seeds", "schedules")
    command = ["--results", str(home / "r"), "site", "--out", str(tmp_path / "o"), "--report"]
    assert run([*command, ",".join(chosen)]) == 0
    drawn = {path for path in counts if path.startswith("figures/schedules/")}
    assert drawn
    assert counts == Counter([*chosen, "groups", *drawn])
    assert run([*command, ",".join(chosen)]) == 0
    assert counts == Counter([*chosen, "groups", *drawn])
    assert run([*command, "leaderboard,schedules"]) == 0
    assert {counts[path] for path in drawn} == {1}


def test_the_page_of_a_task_opens_with_one_ranking_and_folds_the_rest(home):
    """A count of what is open, as a page of 19,000 pixels was one of many open tables."""
    for page in (home / "all" / "tasks").glob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert text.count("<details open") == 2  # a ranking and a table of results
        closed = re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)
        assert closed.count("<table") == 1
        assert closed.count('<ol class="ranking"') == 1
        assert text.count("<table") > 2
        assert 'class="pairs"' not in closed


def test_a_folder_without_runs_says_how_to_make_one(tmp_path):
    assert site(tmp_path / "r", tmp_path / "out") == 0
    assert "bench run --sampler sgld" in (tmp_path / "out" / "index.html").read_text()
    check_pages(tmp_path / "out")


def test_an_unknown_report_and_a_strange_folder_are_refused(home, capsys, tmp_path):
    assert run(["--results", str(home / "r"), "site", "--report", "leaderbord", "--out", str(tmp_path / "o")]) == 2
    assert "did you mean leaderboard" in capsys.readouterr().err
    assert site(home / "r", home / "night") == 2
    assert "holds the pages of 'tiny'" in capsys.readouterr().err


def test_a_report_that_fails_ends_with_3_and_the_other_pages_are_there(home, tmp_path, monkeypatch):
    from reports.tables.leaderboard import Leaderboard

    def fail(*_):
        raise ZeroDivisionError("odd")

    monkeypatch.setattr(Leaderboard, "build", fail)
    assert site(home / "r", tmp_path / "o") == 3
    pages = check_pages(tmp_path / "o")
    assert sum(name.startswith("rows/") for name in pages) == 4


def test_equations_keep_their_lines_and_prose_does_not():
    parts = paragraphs(
        "One line that is prose and long enough to be set again by a browser,\nas is this.\n\n    x <- y\n"
    )
    assert [kind for kind, _ in parts] == ["p", "equation"]
    assert parts[1][1] == "    x <- y"


def test_the_page_reader_sees_what_it_must():
    page = Page('<img src="a.png" alt="a"><svg role="img" aria-label="b"></svg><script>1</script>')
    assert (page.alts, page.images, page.scripts) == (["a", "b"], ["a.png"], ["1"])
