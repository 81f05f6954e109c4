"""run.compile=network: the network's forward and backward pass compiled within the step."""

import pytest
import torch
from generated import SMALL, Generated
from support import make_loop, run_loop
from torch import nn

from harness.engine.stepping import execution_mode
from harness.system.errors import PluginError, UsageError
from harness.tasks import Network
from plugins.samplers.msgld import MSGLD
from plugins.schedules.constant import Constant
from tasks.vision.notmnist import NotMNIST

STEP = Constant(step_size=1e-6)


class Tiny(Generated):
    """With a network that is compiled in seconds."""

    def network(self):
        return Network(lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 10)))


def end(mode, steps=6, **settings):
    return run_loop(make_loop(Tiny(**SMALL, **settings), MSGLD(), STEP, steps, chains=1, mode=mode, burn_in=steps - 1))


@pytest.mark.slow
@pytest.mark.skipif(execution_mode.obstacle() is not None, reason=str(execution_mode.obstacle()))
def test_it_ends_where_the_network_as_it_is_ends_and_moves_its_statistics():
    ours, plain = end("network"), end("plain")
    torch.testing.assert_close(ours.theta, plain.theta, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(ours.problem.buffers, plain.problem.buffers, rtol=1e-4, atol=1e-5)


def test_a_compiler_that_fails_is_said_with_what_to_do(monkeypatch):
    def failing(*_, **__):
        def call(*_):
            raise torch._dynamo.exc.TorchDynamoException("no such operation")

        return call

    monkeypatch.setattr(torch, "compile", failing)
    with pytest.raises(PluginError, match=r"network of Tiny was not compiled; leave out run.compile=network.*no such"):
        end("network")


def test_tasks_without_a_module_refuse_it(monkeypatch):
    monkeypatch.setattr(execution_mode, "obstacle", lambda *_: None)
    assert execution_mode.choose("network", 10, execution_mode.Work(opaque=True)) == "network"
    with pytest.raises(UsageError, match="the task has no network"):
        execution_mode.choose("network", 10)
    images = {"read": lambda *_: (torch.zeros((60, 784)).byte().numpy(), torch.zeros(60).long().numpy())}
    task = type("Noise", (NotMNIST,), images | {"few": 60})(width=4, batch=20)
    with pytest.raises(UsageError, match="no torch module"):
        make_loop(task, MSGLD(), STEP, 2, mode="network")
