"""Networks on rows that are read while they are used, because they do not fit into memory."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from harness import PluginError
from harness.tasks import Network, NetworkProblem, NetworkTask

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray
    from torch import Tensor

    from harness.tasks import Streams

    Batch = dict[str, Tensor]
    Arrays = Mapping[str, NDArray[Any]]

HELD_OUT = 10
"""One training row out of this many is held out when settings are tuned, as in a `DataTask`."""


@dataclass(frozen=True, kw_only=True)
class StreamedTask(NetworkTask):
    """A `NetworkTask` that reads its rows by number: a subclass defines `rows` and `count`, or `dataset`.

    Threads read the next batches, in the order of the run's stream, so no number depends on how many there are. Only
    the batches that they hold and the labels of the test rows are in memory. Rows are the same whenever they are read:
    random changes to them belong into `changes` and `change`, which draw from the run's stream.

    threads  that read batches
    ahead    batches of each chain that are read before they are used
    """

    threads: ClassVar[int] = 4
    ahead: ClassVar[int] = 4

    def dataset(self, part: str) -> torch.utils.data.Dataset[Any]:
        """Return the rows of a part as pairs (x, label), by number; made once for each part of a run."""
        raise NotImplementedError(f"{type(self).__name__} has neither rows and count nor dataset")

    def count(self, part: str) -> int:
        """Return the number of rows of "train", "test" or an unseen part."""
        return len(self._dataset(part))  # type: ignore[arg-type]

    def rows(self, part: str, indices: NDArray[np.int64]) -> Arrays:
        """Return "x" and "label" of these rows (n,) of a part, (n, ...) each; called by several threads at once."""
        pairs = [self._dataset(part)[int(i)] for i in indices]
        x, label = (np.stack([np.asarray(one) for one in each]) for each in zip(*pairs, strict=True))
        return {"x": x, "label": label}

    def _dataset(self, part: str) -> torch.utils.data.Dataset[Any]:
        datasets: dict[str, Any] = self.__dict__.setdefault("_datasets", {})
        return datasets[part] if part in datasets else datasets.setdefault(part, self.dataset(part))

    def terms(self) -> int:
        """Return the number of training rows, N."""
        count = self.size or self.count("train")
        return min(self.few or count, count)

    def build(self, streams: Sequence[Streams], device: str) -> StreamedProblem:
        """Return the problem of `len(streams)` chains; `PluginError` if the network is no torch module."""
        if not isinstance(self.extended(), Network):
            raise PluginError(f"{type(self).__name__}: rows that are read while they are used need a Network(make)")
        return StreamedProblem(self, streams, device)


class StreamedProblem(NetworkProblem):
    """The potential of a `StreamedTask`.

    x, label  (steps, C, n, ...), on a GPU if the batch is of a single step
    """

    task: StreamedTask
    stretch_on_gpu = NetworkProblem.stretch  # rows may be large

    def __init__(self, task: StreamedTask, streams: Sequence[Streams], device: str) -> None:
        self.tuned = streams[0].holds_out
        self.pool = ThreadPoolExecutor(task.threads, "rows")
        self.coming: deque[Tensor] = deque()
        self.pending: dict[bytes, Future[dict[str, Tensor]]] = {}
        super().__init__(task, streams, device)
        first, again = (task.rows("train", np.zeros(1, dtype=np.int64)) for _ in range(2))
        for name, array in first.items():
            if not np.array_equal(array, again[name], equal_nan=array.dtype.kind == "f"):
                raise PluginError(
                    f"{type(task).__name__}: {name!r} of training row 0 differs from one reading to the next; random "
                    "changes belong into `changes` and `change`, which draw from the run's stream"
                )

    reference = None

    def read(self) -> dict[str, Tensor]:
        """Return no rows; they are read when they are used."""
        return {}

    def _rows(self, name: str, index: Tensor) -> dict[str, Tensor]:
        """Return rows of "train", "test" or an unseen part on the CPU; tuning takes every tenth training row for tests.

        As in a `DataTask`, the row before a row that is held out is trained on twice.
        """
        import torch

        part, places = name, index.numpy()
        if self.tuned and name in {"train", "test"}:
            part, last = "train", HELD_OUT - 1
            places = HELD_OUT * places + last if name == "test" else places - (places % HELD_OUT == last)
        return {key: torch.from_numpy(np.array(array)) for key, array in self.task.rows(part, places).items()}

    def count(self, name: str) -> int:
        """Return the number of rows of a set that are used."""
        count = self.terms // HELD_OUT if self.tuned and name == "test" else self.task.count(name)
        return min(self.task.few or count, count)

    def draw_batches(self, steps: int) -> Batch:
        """Return the indices of rows and the changes to them, and begin to read the rows."""
        import torch

        if self.epochs is None:
            return {}
        index = self.epochs.take(steps)
        batch = {"index": index} | ({} if self._changes is None else {"change": self._changes.take(steps)})
        self.coming = deque(torch.cat([index, self.epochs.ahead(self.task.ahead)]).flatten(0, 1))
        for _ in range(self.task.ahead * len(self.streams)):
            self._begin()
        if self.device == "cpu" or steps > 1:
            return batch
        rows = [self._fetch(each) for each in index[0]]
        size = len(rows[0]["label"])
        sent = {"index": self.epochs.sent(index, self.device)[:, :, :size]}
        if self._changes is not None:
            sent["change"] = self._changes.sent(batch["change"], self.device)[:, :, :size]
        stacked = {name: torch.stack([row[name] for row in rows])[None] for name in ("x", "label")}
        return sent | {name: leaf.to(self.device, non_blocking=True) for name, leaf in stacked.items()}

    def _begin(self) -> None:
        """Begin to read the next batch that no thread reads yet."""
        if self.coming:
            self._read(self.coming.popleft())

    def _read(self, index: Tensor) -> Future[dict[str, Tensor]]:
        """Return the rows of a batch, under way; the batches that were asked for first are forgotten first."""
        used = index[index < self.terms]
        key = used.numpy().tobytes()
        if key not in self.pending:
            self.pending[key] = self.pool.submit(self._rows, "train", used)
            while len(self.pending) > (self.task.ahead + 2) * len(self.streams):
                self.pending.pop(next(iter(self.pending))).cancel()
        return self.pending[key]

    def _fetch(self, index: Tensor) -> dict[str, Tensor]:
        """Return the rows of a batch on the CPU, and let a thread begin with another batch."""
        rows = self._read(index).result()
        self._begin()
        return rows

    def batch_rows(self, c: int, batch: Batch, size: int) -> tuple[Tensor, Tensor]:
        """Return the rows "x" of chain c's batch as a training step uses them, and their labels."""
        if "x" in batch:
            x, label = batch["x"][c], batch["label"][c]
        else:
            rows = self._fetch(batch["index"][c].cpu())
            x, label = rows["x"].to(self.device), rows["label"].to(self.device)
        if "change" in batch:
            x = self.task.change(x, batch["change"][c, :size].to(self.device))
        return x, label

    def _stretches(self, name: str, length: int) -> Iterator[dict[str, Tensor]]:
        """Yield the rows of a set on the device, in order; the next ones are read meanwhile."""
        import torch

        coming: Future[dict[str, Tensor]] | None = None
        for index in (*torch.arange(self.count(name)).split(length), None):
            ready, coming = coming, None if index is None else self.pool.submit(self._rows, name, index)
            if ready is not None:
                yield {key: leaf.to(self.device) for key, leaf in ready.result().items()}

    def stretches(self, name: str, length: int) -> Iterator[Tensor]:
        """Yield the rows "x" of a set without changes, in order, `length` at a time."""
        return (rows["x"] for rows in self._stretches(name, length))

    def parts(self, c: int, batch: Batch | None) -> Iterator[tuple[float, tuple[Tensor, Tensor]]]:
        """Yield inputs and labels of chain c, each pair with the number of terms of U that its mean loss stands for."""
        if batch:
            yield from super().parts(c, batch)
            return
        for rows in self._stretches("train", self.stretch if self.task.batch is None else self.task.batch):
            yield len(rows["label"]), (self.task.inputs(rows["x"]), rows["label"])

    @functools.cached_property
    def labels(self) -> Mapping[str, Tensor]:
        """The labels of the rows of "test"."""
        import torch

        return {"test": torch.cat([rows["label"] for rows in self._stretches("test", self.stretch)])}
