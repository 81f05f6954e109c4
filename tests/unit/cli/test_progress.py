"""Progress of runs: what a terminal of any size shows while messages of workers arrive, and what a log gets."""

import io
from types import SimpleNamespace as Record

import pytest
from rich.console import Console

from harness.application import progress
from harness.application.bench import Bench
from harness.application.progress import Progress

METHODS = ("sgld", "relativistic-sghmc-with-a-long-name")


def jobs(blocks=3, seeds=2):
    return [
        Record(specs=[
            Record(key=f"{k}-{seed}", method=METHODS[k % 2], task=Record(name="mixture25"), seed=seed, steps=1000)
            for seed in range(seeds)
        ])
        for k in range(blocks)
    ]  # fmt: skip


def advance(shown, k, position, rate=100.0, steps=1000):
    shown.listen("progress", {
        "keys": [f"{k}-0", f"{k}-1"], "position": position, "steps": steps, "rate": rate, "seconds": position / rate,
        "step_size": 0.1, "block": f"{k}-0",
    })  # fmt: skip


def finish(shown, key, status="done"):
    shown.listen("finished", {"key": key, "status": status, "reason": "why", "block": f"{key[0]}-0"})


def lines(shown, width=80, height=24):
    stream = io.StringIO()
    console = Console(file=stream, width=width, height=height, color_system=None)
    console.print(shown.lines(width, height))
    return stream.getvalue().splitlines()


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_every_line_fits_and_names_its_block(width):
    shown = Progress(Bench(), jobs(), 2)
    assert lines(shown, width)[0].startswith("0 of 6 runs")
    for k in range(2):
        advance(shown, k, 500)
    first, *rest = lines(shown, width)
    assert max(map(len, [first, *rest])) <= width
    assert first.split("\u2501")[0].strip() == "0 of 6 runs"
    assert [line.split()[0][:6] for line in rest] == ["sgld", "relati"]
    assert all("50%" in line for line in rest)
    assert ("steps/s" in rest[0]) == (width >= progress.WIDE)


def test_the_steps_of_a_warm_start_count():
    shown = Progress(Bench(), jobs(1))
    advance(shown, 0, 1200, steps=1600)
    assert shown.seconds_left() == pytest.approx(4)
    assert "75%" in lines(shown)[1]


def test_blocks_that_do_not_fit_are_counted_and_finished_ones_are_gone():
    shown = Progress(Bench(), jobs(40), 40)
    for k in range(40):
        advance(shown, k, 10 * (k + 1))
    screen = lines(shown, 80, 12)
    assert len(screen) == 11
    assert screen[-1].strip() == "and 31 more blocks of runs"
    for k in range(35):
        for seed in range(2):
            finish(shown, f"{k}-{seed}")
    screen = lines(shown, 80, 12)
    assert screen[0].startswith("70 of 80 runs")
    assert len(screen) == 6


def test_diverged_and_failed_runs_are_marked(capsys):
    shown = Progress(Bench(), jobs(), 2)
    advance(shown, 0, 500)
    where = {"key": "0-0", "method": "sgld", "task": "mixture25", "seed": 0, "chain": 1, "step": 7, "block": "0-0"}
    shown.listen("diverged", where)
    assert "2 seeds, 1 diverged" in lines(shown, 120)[1]
    finish(shown, "0-0", "diverged")
    finish(shown, "0-1", "error")
    assert lines(shown, 120)[0].startswith("2 of 6 runs, 1 diverged, 1 failed")
    assert capsys.readouterr().err.splitlines() == [
        "diverged: sgld on mixture25, seed 0: chain 1 became non-finite at step 7",
        "error: sgld on mixture25, seed 1: why"
    ]  # fmt: skip


def test_a_worker_that_died_is_no_longer_shown():
    shown = Progress(Bench(), jobs(), 2)
    advance(shown, 0, 500)
    shown.listen("died", {"message": "a worker exited unexpectedly", "block": "0-0"})
    assert len(lines(shown)) == 1


def test_the_time_left_knows_slow_methods_and_what_blocks_take_besides_their_steps(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    shown = Progress(Bench(), jobs(6), 2)
    assert shown.seconds_left() is None
    now[0] = 12.0
    advance(shown, 0, 1000, rate=100.0)  # sgld: 10 s
    for seed in range(2):
        finish(shown, f"0-{seed}")
    advance(shown, 1, 100, rate=10.0)  # the other: 100 s, of which 90 are left
    besides = (2 * 12 - 10 - 10) / 2
    assert shown.seconds_left() == pytest.approx((90 + 2 * 10 + 2 * 100 + 4 * besides) / 2)
    advance(shown, 1, 100, rate=0.1)  # one block is longer than all others together
    assert shown.seconds_left() >= 9000
    assert Progress(Bench(), jobs(1), 2).workers == 1


def test_a_log_gets_a_line_a_minute(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with Progress(Bench(), jobs(), 1) as shown:
        for second in range(130):
            now[0] = float(second)
            advance(shown, 0, second + 1, rate=1.0)
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(
        "0 of 6 runs, 49 min left; sgld on mixture25, 2 seeds: step 62 of 1000, 1 steps/s, 16 min left"
    )
    assert second.startswith("0 of 6 runs")


def test_a_warning_that_several_blocks_have_is_shown_once(capsys):
    shown = Progress(Bench(), jobs())
    for text in ("one", "two", "one"):
        shown.listen("warning", {"text": text})
    assert capsys.readouterr().err.splitlines() == ["warning: one", "warning: two"]
