"""A plugin that changes what measures ends its run with an error that names what was changed, and by which plugin."""

from __future__ import annotations

import builtins
import importlib
import sys
import types

import numpy as np
import pytest
import torch

import harness.engine.loop
import harness.runs.session
import tasks.synthetic.gaussian2d
from harness.application.bench import Bench
from harness.contracts.plugin_errors import format_error
from harness.runs import unchanged
from harness.system.errors import PluginError

SAMPLER = """
from dataclasses import dataclass
{head}
import harness
from harness import Info, Sampler, hook

{before}

@dataclass(frozen=True, kw_only=True)
class Evil(Sampler):
    def __post_init__(self):
        {made}
        super().__post_init__() if hasattr(super(), "__post_init__") else None

    def step(self, theta, state, potential, h, T, noise):
        {step}
        return theta - h * potential.grad(theta) + (2 * h * T).sqrt() * noise.normal(theta), state

@hook
def bench_samplers():
    return [Info("{name}", "{module}:Evil", "changes what measures")]
"""
PATCHES = {
    "at-import": ("import torch", "torch.Tensor.mean = lambda self, *a, **k: self * 0", "pass", "pass"),
    "when-made": ("import numpy", "", "numpy.mean = lambda *a, **k: 0.0", "pass"),
    "in-step": (
        "from tasks.synthetic.observer import MixtureObserver",
        "HONEST = MixtureObserver.outcome",
        "pass",
        "MixtureObserver.outcome = lambda self: HONEST(self)",
    ),
    "honest": ("import math", "", "pass", "pass"),
}
CHANGED = {"at-import": "torch.Tensor.mean", "when-made": "numpy", "in-step": "MixtureObserver.outcome"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The runs of a sampler for each way to change what measures, by its name."""
    folder = tmp_path_factory.mktemp("changed")
    files = []
    for name, (head, before, first, step) in PATCHES.items():
        files.append(folder / f"evil_{name.replace('-', '_')}.py")
        text = SAMPLER.format(head=head, before=before, made=first, step=step, name=name, module=files[-1].stem)
        files[-1].write_text(text)
    bench = Bench(folder / "results", plugins=[str(path) for path in files])
    bench.run([*PATCHES], ["mixture5"], seeds=[0], chains=2, budget="steps=50")
    return {row["method"]: row for row in bench.store().rows("select method, status, reason from run_status")}


@pytest.mark.parametrize("name", CHANGED)
def test_a_run_that_changes_what_measures_ends_with_an_error(runs, name):
    assert runs[name]["status"] == "error"
    assert CHANGED[name] in runs[name]["reason"]
    assert f"evil_{name.replace('-', '_')}:Evil" in runs[name]["reason"]


def test_a_sampler_from_outside_that_changes_nothing_runs(runs):
    assert runs["honest"]["status"] == "done", runs["honest"]["reason"]


def fake(*_args, **_given):
    return 0.0


class Fake(dict):
    pass


@pytest.fixture(scope="module")
def noted():
    unchanged._noted.cache_clear()
    yield unchanged._noted()
    unchanged._noted.cache_clear()


@pytest.fixture
def stranger(noted):
    noted.plugins["stranger"] = "the plugin of stranger"
    yield noted
    noted.plugins.clear()


def code_of(function):
    return lambda patch: patch.setattr(function, "__code__", fake.__code__)


def replaced(owner, name, value=fake):
    return lambda patch: patch.setattr(owner, name, value, raising=False)


OBSERVER = tasks.synthetic.gaussian2d.Gaussian2D
WAYS = {
    "a class of the loop": replaced(harness.engine.loop, "Loop", Fake),
    "a name that the loop imported": replaced(harness.runs.session, "Loop", Fake),
    "a method": replaced(harness.engine.loop.Loop, "advance_block"),
    "a method's code": code_of(harness.engine.loop.Loop.advance_block),
    "a property": replaced(harness.engine.loop.Loop, "finished", property(lambda _: True)),
    "a property's code": code_of(harness.engine.loop.Loop.finished.fget),
    "a method that was inherited": replaced(OBSERVER, "__getattribute__"),
    "a truth": replaced(OBSERVER, "truth"),
    "defaults": lambda patch: patch.setattr(torch.nn.functional.softmax, "__defaults__", (0, 1, 2)),
    "a function of numpy": replaced(np, "mean"),
    "the code of a function of numpy": code_of(np.mean._implementation),
    "a function of torch": replaced(torch, "mean"),
    "a C function": replaced(torch._C, "_len_torch_function_stack"),
    "a cached function's code": code_of(unchanged._compared.__wrapped__),
    "a method of tensors": replaced(torch.Tensor, "square"),
    "a function of networks": replaced(torch.nn.functional, "softmax"),
    "a function of Python": replaced(builtins, "sum"),
    "a hidden function of Python": replaced(harness.engine.loop, "len"),
    "a constant": replaced(harness.runs.session, "WRITERS", 1),
    "a module": lambda patch: patch.setitem(sys.modules, "harness.engine.loop", types.ModuleType("loop")),
    "a wrapped function": lambda patch: patch.setattr(
        harness.runs.session.writing.__closure__[0], "cell_contents", fake
    ),
    "numpy's errors": lambda patch: patch.setattr(np, "geterr", fake),
}


@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_change_what_measures_is_seen(stranger, way):
    with pytest.MonkeyPatch.context() as patch:
        try:
            WAYS[way](patch)
        except (TypeError, AttributeError):  # some versions refuse it themselves
            return
        with pytest.raises(PluginError, match="stranger"):
            stranger.check()
    stranger.check()


def test_functions_that_torch_calls_first_are_seen(stranger):
    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, _types, args=(), kwargs=None):
            return function(*args, **(kwargs or {}))

    with Mode(), pytest.raises(PluginError, match="torch calls first"):
        stranger.check()


def test_the_author_of_a_change_is_named_among_several(stranger):
    stranger.plugins["other"] = "the plugin of other"
    mean = types.FunctionType(fake.__code__, {"__name__": "stranger"}, "fake")
    mean.__module__ = "stranger"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.Tensor, "mean", mean, raising=False)
        with pytest.raises(PluginError) as refused:
            stranger.check()
    assert "plugin of stranger" in format_error(refused.value)
    assert "plugin of other" not in format_error(refused.value)


def test_what_libraries_do_late_is_no_change(stranger):
    import copy
    import pickle

    copy.copy(harness.engine.loop.Loop.__new__(harness.engine.loop.Loop))
    pickle.dumps(torch.ones(2))
    torch.set_num_threads(torch.get_num_threads())
    importlib.import_module("torch._dynamo")
    torch.func.grad(lambda x: x.square().sum())(torch.ones(3))
    torch.linalg.cholesky(torch.eye(3))
    stranger.check()


def test_runs_of_built_in_code_note_nothing(tmp_path):
    from sessions import session

    from harness.results.ledger.ledger import Ledger

    unchanged._noted.cache_clear()
    ledger = Ledger(tmp_path)
    ledger.prepare()
    assert session(ledger).measuring is None
    assert not unchanged._noted.cache_info().currsize
