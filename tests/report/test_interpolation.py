"""Errors between draws: which draws are joined, with which statistics, and what the barrier is."""

from dataclasses import dataclass

import numpy as np
import pytest
from safetensors.numpy import save
from scored import store, write_run

from harness import DataError
from harness.reporting.report import Request
from reports.figures import interpolation
from reports.figures.interpolation import Interpolation

STEPS = np.arange(10, 70, 10)
"""Kept draws, two in each of three cycles."""


@dataclass
class Made:
    """A task whose error along a line is made of its ends and of t."""

    fail: bool = False

    def build(self, streams, device):
        if self.fail:
            raise DataError("no images here")
        return self

    def on_line(self, ends, statistics, places):
        t = np.array(places)
        line = ends[0, 0].item() * (1 - t) + ends[1, 0].item() * t
        errors = {"as they are": line + 12 * t * (1 - t)}
        return errors | ({"recomputed": line + 4 * t * (1 - t) + statistics.sum().item()} if statistics.numel() else {})


@pytest.fixture(autouse=True)
def task(monkeypatch):
    monkeypatch.setattr(interpolation, "errors_on_line", lambda subject, *line: subject.on_line(*line))
    monkeypatch.setattr(interpolation, "task_of", lambda group, _: Made(group.method == "chmc"))


def write(results, method="csgld", cycle=(0, 0, 1, 1, 2, 2), stored=STEPS, *, draws=True, buffers=False, **changes):
    """Chain 0 of two; the first weight of a draw is its step, the first statistic a thousandth of it."""
    arrays = {"cycle": np.repeat(cycle, 2), "steps": np.repeat(STEPS, 2), "chain": np.tile([0, 1], 6)}
    if buffers:
        arrays["buffers"] = (np.repeat(STEPS, 2) / 1000 + arrays["chain"])[:, None].astype(np.float32)
    files = {"arrays.safetensors": save(arrays)}
    if draws:
        theta = np.zeros((len(stored), 2, 3), dtype=np.float32)
        theta[:, 0, 0] = stored
        files["draws.safetensors"] = save({"draws": theta, "steps": np.array(stored)})
    write_run(results, method=method, chains=2, metrics={"single_test_error": 3.0}, files=files, **changes)


def ends(built):
    return [(record["from_step"], record["to_step"]) for record in built.records]


def test_the_last_draws_of_consecutive_cycles_are_joined(tmp_path):
    write(tmp_path)
    built = Interpolation().build(store(tmp_path), Request())
    assert ends(built) == [(20, 40), (40, 60)]
    first = built.records[0]
    assert (first["start"], first["end"]) == (20, 40)
    assert first["barrier"] == pytest.approx(3)
    assert first["statistics"] == "as they are"
    assert first["errors"][5] == pytest.approx(33)


def test_statistics_are_those_of_the_draws_and_both_lines_are_shown(tmp_path):
    write(tmp_path, buffers=True, stored=STEPS[::2])  # every other draw is on disk: the first of each cycle
    built = Interpolation().build(store(tmp_path), Request())
    assert ends(built) == [(10, 30), (10, 30), (30, 50), (30, 50)]
    assert [record["statistics"] for record in built.records[:2]] == ["as they are", "recomputed"]
    assert built.records[1]["start"] == pytest.approx(10 + 0.04)
    assert built.records[1]["barrier"] == pytest.approx(1)


def test_a_run_of_one_cycle_is_joined_from_its_first_draw_to_its_last(tmp_path):
    write(tmp_path, method="sgld", cycle=[0] * 6)
    assert ends(Interpolation().build(store(tmp_path), Request())) == [(10, 60)]


def test_what_is_missing_is_said_with_what_to_do(tmp_path):
    assert not Interpolation().build(store(tmp_path), Request()).notes
    write(tmp_path, draws=False)
    write(tmp_path, method="sghmc", cycle=[0] * 6, stored=STEPS[:1], number=1)
    write(tmp_path, method="chmc", number=2)
    built = Interpolation().build(store(tmp_path), Request())
    assert not built.figures
    assert built.notes[0] == "chmc: no images here"
    for name, note in zip(("csgld", "sghmc"), built.notes[1:], strict=True):
        assert note.startswith(
            f"{name}: no two draws of a finished run are on disk; `bench run` with the same options and"
        )


def test_a_task_that_is_no_network_is_passed_over_and_named_where_asked_for(tmp_path):
    write_run(tmp_path, metrics={"modes_covered": 2.0})
    assert not Interpolation().build(store(tmp_path), Request()).notes
    asked = Interpolation().build(store(tmp_path), Request(tasks=("mixture25",)))
    assert asked.notes == ["mixture25 has no network to take between draws"]


def test_errors_are_computed_once_and_again_where_the_code_or_the_kept_file_changed(tmp_path, monkeypatch, capsys):
    write(tmp_path)
    built = Interpolation().build(store(tmp_path), Request())
    said = capsys.readouterr().err
    assert "22 networks on 2,000 test images; the errors are kept" in said
    assert "line 2 of 2" in said

    def refuse(*_):
        raise AssertionError("computed again")

    with monkeypatch.context() as patch:
        patch.setattr(interpolation, "errors_on_line", refuse)
        assert Interpolation().build(store(tmp_path), Request()).records == built.records
        assert capsys.readouterr().err == ""
        patch.setattr(interpolation, "_code", lambda _: "another")
        with pytest.raises(AssertionError, match="computed again"):
            Interpolation().build(store(tmp_path), Request())
    (kept,) = (tmp_path / "figures").iterdir()
    for content in (b"", kept.read_bytes().replace(b"20.0", b"21.0")):
        kept.write_bytes(content)
        assert Interpolation().build(store(tmp_path), Request()).records == built.records
        assert "line 2 of 2" in capsys.readouterr().err


def test_a_results_folder_that_cannot_be_written_to_is_read(tmp_path):
    write(tmp_path)
    (tmp_path / "figures").write_text("a file where the folder would be")
    assert Interpolation().build(store(tmp_path), Request()).records
