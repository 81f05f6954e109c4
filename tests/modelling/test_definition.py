"""A model of a script as a task in a file: what workers import, how chains start, and what cannot be one."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from harness import UsageError
from harness.tasks import Network
from plugins.modelling.definition import define
from plugins.modelling.task import _read

SCRIPT = """
import functools
import torch
import torch.nn.functional as F
from torch import nn

WIDTH = 3
x = y = mean = torch.zeros(3)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Linear(width, width)
        self.scale = nn.Parameter(torch.full((width,), 2.0))
        self.register_buffer("shift", torch.arange(width, dtype=torch.float32))

    def forward(self, x):
        return self.scale * self.inner(x) + self.shift


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(WIDTH), Block(WIDTH)])
        self.attend = nn.MultiheadAttention(WIDTH, 1)
        self.act = leaky
        self.head = nn.Linear(WIDTH, WIDTH)
        self.head.weight = self.blocks[0].inner.weight

    def forward(self, x):
        for block in self.blocks:
            x = self.act(block(x))
        return self.head(self.attend(x, x, x, need_weights=False)[0])


def leaky(x):
    return F.leaky_relu(x, 0.1)


def make_net():
    return Net()


def loss(outputs, y):
    return -(outputs[:, 0] - y) ** 2


def score(mean, y):
    return float((mean.argmax(1) == y).mean())


def turned(row, severity, generator):
    return row[::-1] + severity * WIDTH


instance = Net()
sequence = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))
part = functools.partial(nn.Linear, 3, 2)
nameless = lambda: nn.Linear(3, 2)
live = nn.Linear(3, 2)
live.act = lambda x: x
frozen = nn.Linear(3, 2)
frozen.weight.requires_grad_(False)


def uses_data():
    return nn.Linear(len(x), 2)
"""
ARRAYS = {
    f"{part}/{name}": values
    for part in ("train", "test")
    for name, values in (("x", np.ones((10, 3), np.float32)), ("label", np.arange(10) % 2))
}


@pytest.fixture
def script(tmp_path, monkeypatch):
    """A module as a user's script is: not installed, and named otherwise in a worker."""
    (tmp_path / "a_script.py").write_text(SCRIPT)
    return load(tmp_path / "a_script.py", monkeypatch)


def load(path, monkeypatch):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, path.stem, module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def task(tmp_path, monkeypatch, script):
    """Write the task of a model, import its file without the script, and return the task's class and its name."""

    def made_of(model, **more):
        told = {"likelihood": "classification", "prior_precision": 1.0, "batch": 4, "metrics": {}, **more}
        path, name = define(tmp_path / "results", model, ARRAYS, **told)
        monkeypatch.delitem(sys.modules, "a_script", raising=False)
        module = load(Path(path), monkeypatch)
        (offer,) = module.bench_tasks()
        assert name == f"{Path(path).stem}:{offer.name}"
        monkeypatch.setitem(sys.modules, "a_script", script)
        return getattr(module, offer.target.partition(":")[2]), offer.name

    return made_of


def test_shifts_are_in_the_file_and_score_the_test_rows(script, task):
    cls, name = task(script.sequence, shifts={"turned": script.turned})
    plain, other = task(script.sequence)
    assert name != other
    assert cls.shifts["turned"](np.arange(3.0), 2, None).tolist() == [8.0, 7.0, 6.0]
    added = [metric.name for metric in cls.metrics if metric not in plain.metrics]
    assert added == ["shift_test_error", "shift_nll", "shift_ece"]
    assert cls.metrics[0].name == "nll"
    with pytest.raises(UsageError, match=r"shifts\['mine'\]"):
        task(script.sequence, shifts={"mine": lambda row, *_: row})


@pytest.mark.parametrize("model", ["Net", "make_net", "instance", "sequence", "part"])
def test_a_worker_makes_the_same_module_from_the_file_alone(script, task, model):
    cls, _ = task(getattr(script, model))
    given = getattr(script, model)
    expected = given if isinstance(given, torch.nn.Module) else given()
    module = cls.make()
    shapes = {name: tuple(leaf.shape) for name, leaf in expected.state_dict().items()}
    assert {name: tuple(leaf.shape) for name, leaf in module.state_dict().items()} == shapes
    module.load_state_dict(expected.state_dict())
    x = torch.randn(5, 3)
    assert torch.equal(module.eval()(x), expected.eval()(x))
    other = cls.make()
    first, second = (dict(one.named_parameters()) for one in (cls.make(), other))
    drawn = [name for name in first if name.endswith("weight") and not torch.equal(first[name], second[name])]
    assert drawn


def test_an_instance_keeps_what_no_layer_draws_and_what_is_shared(script, task):
    with torch.no_grad():
        script.instance.blocks[0].scale.fill_(5.0)
    module = task(script.instance)[0].make()
    assert module.blocks[0].scale.tolist() == [5.0] * 3
    assert module.blocks[1].shift.tolist() == [0.0, 1.0, 2.0]
    assert module.head.weight is module.blocks[0].inner.weight
    assert not torch.equal(module.blocks[1].inner.weight, script.instance.blocks[1].inner.weight)


def test_chains_start_from_their_own_generators(script, task):
    network = Network(task(script.instance)[0].make)
    starts = [network.start(torch.Generator().manual_seed(seed)) for seed in (0, 1, 0)]
    assert torch.equal(starts[0], starts[2])
    assert not torch.equal(starts[0], starts[1])


def test_the_same_model_is_the_same_task_whatever_its_weights_are(script, task):
    first = task(script.sequence)[1]
    for layer in script.sequence:
        getattr(layer, "reset_parameters", lambda: None)()
    assert task(script.sequence)[1] == first
    others = [
        task(script.sequence, prior_precision=2.0),
        task(script.sequence, batch=5),
        task(script.sequence, metrics={"score": script.score}),
        task(script.instance),
        task(script.sequence, name="my_net"),
    ]
    assert len({first, *(name for _, name in others)}) == 6
    assert others[-1][1].startswith("my-net-")


def test_the_arrays_are_in_the_folder_of_files_under_their_checksum(script, task, tmp_path):
    cls, _ = task(script.Net)
    (file,) = (tmp_path / "results" / "files").iterdir()
    assert cls.__dataclass_fields__["data"].default == f"sha256:{file.name}"
    assert all(np.array_equal(_read(str(file))[name], values) for name, values in ARRAYS.items())


def test_metrics_of_the_user_are_the_scores_of_the_task(script, task):
    cls, _ = task(script.Net, metrics={"share": script.score})
    assert cls.scores(None, np.eye(2), np.array([0, 0])) == {"share": 0.5}


@pytest.mark.parametrize(
    ("model", "more", "words"),
    [
        ("nameless", {}, "model is <function <lambda>"),
        ("live", {}, "a part of the model is <function <lambda>"),
        ("frozen", {}, "weight of the model would be sampled although frozen"),
        ("WIDTH", {}, "model is 3; define it"),
        ("uses_data", {}, "uses x, a live Tensor"),
        ("Net", {"likelihood": "student"}, "likelihood 'student' is not classification, regression"),
        ("Net", {"name": "8 nets"}, "the name '8 nets' of a model"),
        ("Net", {"likelihood": 3}, "likelihood is 3; define it"),
        ("Net", {"metrics": {"a": lambda *_: 0.0}}, r"metrics\['a'\] is <function"),
    ],
)
def test_what_no_worker_can_make_is_refused_by_name(script, tmp_path, model, more, words):
    told = {"likelihood": "classification", "prior_precision": 1.0, "batch": 4, "metrics": {}, **more}
    with pytest.raises(UsageError, match=words):
        define(tmp_path / "results", getattr(script, model), ARRAYS, **told)
    assert not list((tmp_path / "results").glob("definitions/*"))
