"""An update that is to be compiled is never executed uncompiled, and no warning keeps it from being compiled."""

import warnings

import pytest
import torch
from support import make_loop, run_loop

from harness.engine.stepping import execution_mode
from harness.engine.stepping.making import UncompiledError
from harness.system.cpp import CompilerError
from plugins.samplers.sgld import SGLD
from plugins.schedules.constant import Constant
from tasks.synthetic.mixture5 import Mixture5


@pytest.fixture(autouse=True)
def always_large(monkeypatch):
    monkeypatch.setattr(execution_mode, "LARGE", 1)


def test_an_update_that_torch_executes_uncompiled_is_an_error():
    with torch.compiler.set_stance("force_eager"), pytest.raises(UncompiledError, match="did not compile it") as error:
        make_loop(Mixture5(), SGLD(), Constant(step_size=0.01), 5, mode="traced")
    assert error.value.scope == "moment"
    loop = make_loop(Mixture5(), SGLD(), Constant(step_size=0.01), 5, mode="traced")
    assert loop.stage.stepper.code_counts() == (1, 0)
    with torch.compiler.set_stance("force_eager"), pytest.raises(CompilerError, match="did not compile it"):
        run_loop(loop)


def test_warnings_do_not_keep_an_update_from_being_compiled(monkeypatch):
    def warns(graph, _):
        for category in (UserWarning, DeprecationWarning, FutureWarning, RuntimeWarning, ResourceWarning):
            warnings.warn("of the compiler", category, stacklevel=1)
        return graph

    def compiled(update, _):
        return torch.compile(update, fullgraph=True, dynamic=False, backend=warns)

    monkeypatch.setattr("harness.engine.stepping.update._compile", compiled)
    with warnings.catch_warnings(action="error"):
        loop = make_loop(Mixture5(), SGLD(), Constant(step_size=0.01), 5, mode="traced")
    assert run_loop(loop).stage.stepper.code_counts() == (1, 0)
