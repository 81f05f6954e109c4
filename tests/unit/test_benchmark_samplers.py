"""The benchmark of all samplers: what it counts, and that its section says what was measured."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from harness import Sampler
from plugins.samplers.msgld import MSGLD
from plugins.samplers.sgld import SGLD

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
DIM = 100_000

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch's profiler


@pytest.fixture
def update(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import update

    return update


@pytest.fixture
def samplers(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import samplers

    return samplers


class Square(Sampler):
    """A state that no flat vector can have."""

    def init(self, theta, potential, h, T, noise):
        return {"P": theta[:, :, None] * theta[:, None, :]}

    def step(self, theta, state, potential, h, T, noise):
        return theta - h * potential.grad(theta), {"P": state["P"] + 0}


class Scored(SGLD):
    needs = frozenset({"scores"})


def test_peak_counts_what_is_alive_at_once(update):
    x = torch.ones(DIM)
    acts = {1: lambda: x + 1, 2: lambda: (x + 1) + 1, 0: lambda: x.mul_(1)}
    assert {n: update.peak(act) / x.nbytes for n, act in acts.items()} == {n: pytest.approx(n, abs=1e-3) for n in acts}
    assert update.peak(lambda: ((x + 1) + 1) + 1) / x.nbytes == pytest.approx(2, abs=1e-3)


def test_what_a_step_must_move(update):
    assert update.Update(SGLD(), DIM).vectors() == 4  # theta twice, curvature, noise
    msgld = update.Update(MSGLD(), DIM)
    assert (msgld.changed, msgld.vectors(of_state=True), msgld.vectors()) == (["m"], 1, 6)


def test_a_plain_step_allocates_what_its_lines_say(update):
    small = update.Update(SGLD(), DIM)
    assert update.peak(small.plain) == pytest.approx(3 * small.theta.nbytes, rel=1e-3)


def test_what_a_flat_vector_is_not_for(update):
    assert "square" in update.unfit(Square())
    assert "scores" in update.unfit(Scored())
    assert update.unfit(SGLD()) == ""


def row(name, *, step=2e-3, plain=3.0, **more):
    flat = {"state": 1.0, "normals": 1.0, "moved": 6.0, "plain_peak": plain, "compiled_peak": 1.0, "compile": 1.0}
    timed = {"step": step, "copy": 5e-4, "block": 1e-3}
    made = {"sampler": name, "problem": "", "flat": flat, "mixture": {"compile": 1.0, "chain_steps": 10_000}}
    return {**made, "rounds": [timed, timed], "sgld": [{**timed, "step": 1e-3}] * 2, **more}


def test_the_section_says_what_was_measured(samplers):
    rows = [row("one"), row("two", plain=4.5), row("gone", problem="killed", flat={}, mixture={}, rounds=[{}, {}])]
    rows.append(row("wide", flat={"left_out": "needs scores"}))
    record = {"quick": False, "dim": 2**20, "chains": 1000, "rounds": 2, "minutes": 6.0, "rows": rows}
    text = samplers.section(record)
    assert "| one | 1 | 1 | 2 (2 to 2) | 2 (2 to 2) | 24 | 1.33 (1.33 to 1.33) | 100 (100 to 100) |" in text
    assert "Compiled, all samplers meet it. Plain, it is exceeded by two by 1.5." in text
    assert "- gone: killed" in text
    assert "- wide: flat vector: needs scores" in text
    assert "| wide |  |" in text
