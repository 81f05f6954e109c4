"""Rows that are read while they are used, against the same rows in memory."""

import threading
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from support import make_loop, run_loop

from harness import PluginError
from harness.contracts.randomness import TUNING_SEED
from harness.runs.session import Session
from harness.tasks import Network, NetworkTask, Streams
from plugins.checking.task_laws import TASK_LAWS
from plugins.samplers.sgld import SGLD
from plugins.schedules.constant import Constant
from tasks.likelihoods import Regression
from tasks.mlp import MLP
from tasks.streamed import StreamedTask

pytestmark = pytest.mark.usefixtures("one_thread")

SIZES = {"train": 45, "test": 30, "far": 8}


def table(part):
    rng = np.random.default_rng(len(part))
    return rng.normal(size=(SIZES[part], 3)), rng.normal(size=SIZES[part])


@dataclass(frozen=True, kw_only=True)
class InMemory(NetworkTask):
    dtype = "float64"
    prior_precision = 1.0
    likelihood = Regression()
    unseen = {"far": "far"}  # noqa: RUF012
    batch: int | None = 7

    def network(self):
        return Network(lambda: torch.nn.Linear(3, 1))

    def arrays(self, part):
        x, y = table(part)
        return {"x": x, "label": y}

    def changes(self, generator, shape):
        return torch.from_numpy(generator.normal(size=(*shape, 1)))

    def change(self, x, changes):
        return x + 0.1 * changes


@dataclass(frozen=True, kw_only=True)
class Streamed(InMemory, StreamedTask):
    reads = ()

    def count(self, part):
        return SIZES[part]

    def rows(self, part, indices):
        self.seen(part, indices)
        x, y = table(part)
        return {"x": x[indices], "label": y[indices]}

    def seen(self, part, indices):
        pass

    def arrays(self, part):
        raise AssertionError


class Pairs(torch.utils.data.Dataset):
    """A data set with a transform."""

    def __init__(self, part):
        self.x, self.y = table(part)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return torch.from_numpy(self.x[i]), float(self.y[i])


class OfDataset(Streamed):
    count, rows = StreamedTask.count, StreamedTask.rows

    def dataset(self, part):
        return Pairs(part)


def built(task, seed=0, chains=2):
    return task.build([Streams(seed, c, ("test",)) for c in range(chains)], "cpu")


@pytest.mark.parametrize("kind", [Streamed, OfDataset])
@pytest.mark.parametrize("seed", [0, TUNING_SEED])
def test_the_potential_is_that_of_rows_in_memory(kind, seed):
    a, b = built(InMemory(), seed), built(kind(), seed)
    theta = a.initial()
    assert torch.equal(theta, b.initial())
    for _ in range(3):
        left, right = a.draw_batches(5), b.draw_batches(5)
        for step in range(5):
            one, other = ({name: leaf[step] for name, leaf in batch.items()} for batch in (left, right))
            assert torch.equal(a.gradient(theta, one), b.gradient(theta, other))
            assert torch.equal(a.energy(theta, one), b.energy(theta, other))
    assert torch.allclose(a.gradient(theta, None), b.gradient(theta, None))
    assert torch.equal(a.labels["test"], b.labels["test"])
    for part in ("test", "far"):
        assert torch.equal(*(torch.cat(list(p.predict(theta, slice(0, 2), part)), 1) for p in (a, b)))


@pytest.mark.parametrize("kind", [Streamed, OfDataset])
def test_a_run_has_the_bits_and_metrics_of_rows_in_memory(kind):
    loops = [
        run_loop(make_loop(task, SGLD(), Constant(step_size=1e-3), 40, chains=2, burn_in=20))
        for task in (InMemory(), kind())
    ]
    assert torch.equal(loops[0].theta, loops[1].theta)
    a, b = (loop.runs[0].observer.outcome().metrics for loop in loops)
    assert a.keys() == b.keys()
    assert a == pytest.approx(b)


def test_memory_maps_are_not_copied_and_what_is_held_is_counted(tmp_path):
    x, y = table("train")
    np.save(tmp_path / "x.npy", x)

    class Mapped(InMemory):
        def arrays(self, part):
            return {"x": np.load(tmp_path / "x.npy", mmap_mode="r"), "label": y}

    problem, whole = built(Mapped()), built(InMemory())
    assert problem.held_bytes == y.nbytes
    assert whole.held_bytes == x.nbytes + y.nbytes
    batch = {name: leaf[0] for name, leaf in whole.draw_batches(1).items()}
    assert torch.equal(problem.gradient(problem.initial(), batch), whole.gradient(whole.initial(), batch))
    assert not built(Streamed()).held_bytes


@pytest.mark.parametrize("held", [0, 2**29, 3 * 2**30])
def test_a_warning_says_how_many_gib_are_held(held):
    warnings, session = [], object.__new__(Session)
    session.loop = SimpleNamespace(problem=SimpleNamespace(held_bytes=held))
    session.specs, session.attempts = [SimpleNamespace(task=SimpleNamespace(name="mine"))], []
    session.send = lambda kind, payload: warnings.append((kind, payload["text"]))
    session._warn_of_memory()
    if held < 2**30:
        assert not warnings
    else:
        ((kind, text),) = warnings
        assert kind == "warning"
        assert text.startswith("mine holds 3 GiB of training rows in memory")


def test_only_batches_are_held_and_threads_read_them_ahead():
    sizes, names = [], set()

    class Watched(Streamed):
        def seen(self, part, indices):
            sizes.append(len(indices))
            names.add(threading.current_thread().name.partition("_")[0])

    task = Watched()
    problem = built(task)
    batches = problem.draw_batches(30)
    assert not problem.arrays
    for step in range(30):
        problem.gradient(problem.initial(), {name: leaf[step] for name, leaf in batches.items()})
    problem.pool.shutdown()
    assert max(sizes) == 7
    assert len(problem.pending) <= (task.ahead + 2) * 2
    assert names == {"rows", "MainThread"}  # that of this test reads the first row twice
    assert len(sizes) == 2 + 2 * 30 + 2 * len(problem.epochs.ahead(task.ahead))


@pytest.mark.parametrize("law", ["mean of batches", "gradient is that of the energy", "state restores the batches"])
def test_the_laws_of_tasks_hold(law):
    class Unchanged(Streamed):
        changes, change = NetworkTask.changes, NetworkTask.change

    dict(TASK_LAWS)[law](Unchanged())


def test_rows_that_differ_from_one_reading_to_the_next_are_refused():
    class Random(Streamed):
        def rows(self, part, indices):
            rows = super().rows(part, indices)
            return {**rows, "x": rows["x"] + np.random.default_rng().normal(size=rows["x"].shape)}

    with pytest.raises(PluginError, match=r"'x' of training row 0 differs .* belong into `changes`"):
        built(Random())


def test_what_is_missing_is_said():
    class Nothing(Streamed):
        count, rows, dataset = StreamedTask.count, StreamedTask.rows, StreamedTask.dataset

    class Dense(Streamed):
        def network(self):
            return MLP([3, 2, 1])

        likelihood = Regression(sigma=1.0)

    with pytest.raises(NotImplementedError, match="neither rows and count nor dataset"):
        Nothing()
    with pytest.raises(PluginError, match="need a Network"):
        built(Dense())


def test_an_error_while_reading_ends_the_run_with_its_message():
    class Broken(Streamed):
        def seen(self, part, indices):
            if len(indices) > 1:
                raise OSError("row 3 of train.bin is cut off")

    problem = built(Broken())
    batch = {name: leaf[0] for name, leaf in problem.draw_batches(1).items()}
    with pytest.raises(OSError, match="cut off"):
        problem.gradient(problem.initial(), batch)
