"""The models of docs/my-model.md, and that of `bench new model`: a gradient, a draw and every metric of each."""

import importlib.util
import inspect
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from harness import Bench
from harness.contracts.schedule import Trajectory
from harness.tasks import Cost, Streams
from plugins.modelling import compare_on
from plugins.modelling.command import NEEDED, RUNS, TASK, _defined
from plugins.scaffold.package import TEMPLATES

ROOT = Path(__file__).parents[2]
MODELS = {
    "digits_cnn": {"nll", "test_error", "ece", "brier", "auroc_noise", "worst_recall"},
    "diabetes_student_t": {"nll", "rmse"},
    "characters": {"nll", "test_error", "ece"},
    "my_model": {"nll", "test_error", "auroc_noise"},
}


class StopError(Exception):
    """The task is written."""


@pytest.fixture
def task(tmp_path, monkeypatch):
    """Write the task of a model as `bench compare-on` does, and return it and its problem for two chains."""

    def written(name):
        file = ROOT / "docs" / "examples" / f"{name}.py"
        if not file.exists():
            file = tmp_path / f"{name}.py"
            file.write_text((TEMPLATES / "model" / "model.py.template").read_text())
        assert len(file.read_text().splitlines()) <= 25
        monkeypatch.setattr(compare_on, "_candidates", lambda *_: (_ for _ in ()).throw(StopError))
        bench = Bench(tmp_path / "r", say=lambda _: None)
        with pytest.raises(StopError):
            bench.compare_on(**_defined(file))
        path = Path(bench.plugins[-1])
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, path.stem, module)
        spec.loader.exec_module(module)
        (offer,) = module.bench_tasks()
        model = getattr(module, offer.target.partition(":")[2])()
        return model, model.build([Streams(seed=0, chain=chain) for chain in range(2)], "cpu")

    return written


@pytest.mark.parametrize("name", MODELS)
def test_a_draw_of_the_model_has_every_metric(task, name):
    model, problem = task(name)
    theta = problem.initial()
    assert not torch.equal(theta[0], theta[1])
    (batch,) = [{key: leaf[0] for key, leaf in problem.draw_batches(1).items()}]
    assert torch.isfinite(problem.gradient(theta, batch)).all()
    keep = np.array([True])
    none = np.zeros(1)
    trajectory = Trajectory(
        step_size=none, temperature=none, keep=keep, evaluate=keep, cycle=np.zeros(1, int), burn_in=~keep
    )
    observer = model.observer(problem, slice(0, 2), trajectory, Cost(0.0, 1.0))
    observer.observe(theta[None], torch.ones(1, 2), np.array([1]))
    values = observer.outcome().metrics
    assert model.metrics[0].name == "nll"
    assert values.keys() == {metric.name for metric in model.metrics}
    assert MODELS[name] <= values.keys()
    assert all(values[metric] is not None for metric in MODELS[name])


def test_what_a_file_may_define_is_what_the_call_takes():
    taken = list(inspect.signature(compare_on.compare_on).parameters)[1:]
    assert {*NEEDED, *TASK, *RUNS} == {*taken} - {"devices", "workers", "name"}
    page = (ROOT / "docs" / "my-model.md").read_text(encoding="utf-8")
    assert not [name for name in taken if f"`{name}`" not in page]
