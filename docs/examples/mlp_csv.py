"""A network with one hidden layer on a CSV file: numbers, the class (0, 1, ...) in the last column, no header."""

import functools
from dataclasses import dataclass

import numpy as np

from harness import DataError, Info, UsageError, hook, param
from harness.tasks import NetworkTask, Protocol
from tasks.mlp import MLP


@functools.cache
def read(file):
    try:
        table = np.loadtxt(file, delimiter=",", ndmin=2)
    except (OSError, ValueError) as error:
        raise UsageError(f"task.file = {file!r}: {error}") from error
    for row, column in np.argwhere(~np.isfinite(table)):
        raise DataError(f"{file}: row {row}, column {column} (from 0) is {table[row, column]}")
    if table.shape[0] < 2 or table.shape[1] < 2:
        raise DataError(f"{file}: it has {table.shape[0]} rows of {table.shape[1]} numbers")
    x, label = table[:, :-1], table[:, -1].astype(int)
    for column in np.flatnonzero(np.ptp(x, axis=0) == 0):
        raise DataError(f"{file}: column {column} (from 0) is {x[0, column]:g} in each row; leave it out")
    for row in np.flatnonzero((label != table[:, -1]) | (label < 0) | (label >= len(label))):
        raise DataError(f"{file}: row {row} (from 0) ends with {table[row, -1]:g}, which is no class 0, 1, ... K - 1")
    return (x - x.mean(0)) / x.std(0), label


@dataclass(frozen=True, kw_only=True)
class MlpCsv(NetworkTask):
    """Classes by a ReLU network of one hidden layer, prior N(0, I / prior_precision); every fifth row is for tests."""

    protocols = (Protocol("default", "ours", {"smoke": 500, "quick": 5_000, "paper": 50_000}, burn_in=0.5, thin=50),)

    file: str = param(meaning="the CSV file", source="the data", kind="file")
    width: int = param(50, "[1, inf)", "units of the hidden layer", source="ours")
    batch: int = param(32, "[1, inf)", "n, rows in a minibatch", source="ours")
    prior_precision: float = param(1.0, "[0, inf)", "of all weights", source="ours")

    def network(self):
        x, label = read(self.file)
        return MLP([x.shape[1], self.width, label.max() + 1])

    def arrays(self, part):
        x, label = read(self.file)
        chosen = (np.arange(len(x)) % 5 < 4) == (part == "train")
        return {"x": x[chosen], "label": label[chosen]}


@hook
def bench_tasks():
    return [Info("mlp-csv", "mlp_csv:MlpCsv", "a network on a CSV file")]
