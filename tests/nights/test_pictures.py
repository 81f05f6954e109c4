"""Figures are drawn again only if what they are made from has changed."""

from __future__ import annotations

import json
import multiprocessing
import os

import pytest
from scored import store, time_rows, write_run

from harness import PluginError
from harness.reports import Figure
from harness.results import laws
from plugins.nights.site import folder
from plugins.nights.site.build import _fingerprint, _measured
from plugins.nights.site.pictures import Drawings, chart_text


def draw(canvas):
    canvas.subplots().plot([0, 1])


FIGURE = Figure("a", draw, (2.0, 1.5), task="line")
PATH = "figures/r/a"


def built(out, data="1", figure=FIGURE):
    """Publish a site of one figure; return whether it was drawn, and its file."""
    drawings = Drawings(out, lambda task: data + task)
    file = drawings.file(figure, PATH)
    folder.write(out, "s", {"index.html": b"<p>", f"{PATH}.svg": file}, "", drawings.made_from)
    return drawings.drawn, file


def test_a_figure_is_kept_until_its_data_or_its_words_change(tmp_path):
    drawn, file = built(tmp_path)
    assert drawn == 1
    assert b"<svg" in file
    assert built(tmp_path) == (0, file)
    assert built(tmp_path, "2")[0] == 1
    assert built(tmp_path, "2")[0] == 0
    for other in ({"caption": "b"}, {"size": (3.0, 1.5)}, {"title": "b"}, {"task": "ring"}):
        assert built(tmp_path, "2", Figure("a", draw, **{"size": (2.0, 1.5), "task": "line"} | other))[0] == 1


def test_a_damaged_or_missing_file_is_drawn_again(tmp_path):
    _, file = built(tmp_path)
    (tmp_path / f"{PATH}.svg").write_bytes(b"other")
    assert built(tmp_path) == (1, file)
    (tmp_path / f"{PATH}.svg").unlink()
    assert built(tmp_path) == (1, file)


def test_an_altered_manifest_gives_no_figure(tmp_path):
    built(tmp_path)
    manifest = json.loads((tmp_path / "site.json").read_text())
    for figures in (5, {"../x": "1"}, {PATH: 7}):
        (tmp_path / "site.json").write_text(json.dumps({**manifest, "figures": figures}))
        assert built(tmp_path)[0] == 1


def test_the_data_of_a_task_are_its_runs_and_nothing_else(tmp_path):
    write_run(tmp_path, task="line", metrics={"joint_error": 1.0})
    before = [_fingerprint(store(tmp_path), task) for task in ("line", "ring", "")]
    write_run(tmp_path, task="ring", metrics={"joint_error": 2.0})
    after = [_fingerprint(store(tmp_path), task) for task in ("line", "ring", "")]
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, False, False]


def test_timings_and_laws_are_data_too(tmp_path):
    write_run(tmp_path, task="line")
    seen = [_measured(store(tmp_path))]
    time_rows(tmp_path)
    seen.append(_measured(store(tmp_path)))
    laws.write(tmp_path, "a", laws.Outcome(laws.Verdict.PASSED), {})
    seen.append(_measured(store(tmp_path)))
    assert len({json.dumps(one) for one in seen}) == 3


def test_a_chart_has_only_what_json_has():
    assert chart_text(None) == ""
    assert chart_text({"x": [1.5, None]}) == '{"x":[1.5,null]}'
    assert "u001b" not in chart_text({"lines": [{"label": "\x1b[31m\u202ea"}]})
    with pytest.raises(ValueError, match="not JSON compliant"):
        chart_text({"x": [float("inf")]})


def test_many_figures_are_drawn_in_several_processes_to_the_same_bytes(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)

    def fail(_):
        raise ValueError("no ink")

    pairs = [(Figure(f"f{k}", draw, (1.0, 1.0)), f"figures/r/f{k}") for k in range(5)]
    pairs.append((Figure("bad", fail), "figures/r/bad"))
    drawings, alone = Drawings(), Drawings()
    drawings.begin(pairs)
    assert len(multiprocessing.active_children()) == 2
    assert drawings.drawn == 0
    drawings.begin(pairs)  # nothing is begun twice
    said = []
    drawings.finish(said.append)
    assert said[0] == "drawing 6 figures; 0 are as before"
    assert multiprocessing.active_children() == []
    for figure, path in pairs[:5]:
        assert drawings.file(figure, path) == alone.file(figure, path)
    with pytest.raises(PluginError, match="no ink"):
        drawings.file(*pairs[5])
