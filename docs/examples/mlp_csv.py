"""A network with one hidden layer on a CSV file: numbers, the class (0, 1, ...) in the last column, no header."""

import functools
from dataclasses import dataclass

import numpy as np

from harness import PREDICTIVE_METRICS, Block, DataTask, Layout, Protocol, UsageError, param


@functools.cache
def read(file):
    try:
        table = np.loadtxt(file, delimiter=",", ndmin=2)
    except (OSError, ValueError) as error:
        raise UsageError(f"task.file = {file!r}: {error}") from error
    return (table[:, :-1] - table[:, :-1].mean(0)) / table[:, :-1].std(0), table[:, -1].astype(int)


@dataclass(frozen=True, kw_only=True)
class MlpCsv(DataTask):
    """Classes by a ReLU network of one hidden layer, prior N(0, I / prior_precision); every fifth row is for tests."""

    dtype = "float32"
    opaque, lanes = True, 1  # as networks want it
    provides = frozenset({"terms", "layout"})
    metrics = PREDICTIVE_METRICS
    protocols = (Protocol("default", "ours", {"smoke": 500, "quick": 5_000, "paper": 50_000}, burn_in=0.5, thin=50),)

    file: str = param(meaning="path of the CSV file", source="the data")
    width: int = param(50, "[1, inf)", "units of the hidden layer", source="ours")
    batch: int = param(32, "[1, inf)", "n, rows in a minibatch", source="ours")
    prior_precision: float = param(1.0, "[0, inf)", "of all weights", source="ours")

    def layout(self):
        x, label = read(self.file)
        into, classes = x.shape[1], label.max() + 1
        shapes = {"w1": (self.width, into), "b1": (self.width,), "w2": (classes, self.width), "b2": (classes,)}
        return Layout(tuple(Block(name, shape) for name, shape in shapes.items()))

    def dim(self):
        return self.layout().dim

    def arrays(self, part):
        x, label = read(self.file)
        chosen = (np.arange(len(x)) % 5 < 4) == (part == "train")
        return {"x": x[chosen], "label": label[chosen]}

    def predict(self, theta, rows):
        w = self.layout().split(theta)
        hidden = (rows["x"] @ w["w1"].mT + w["b1"][:, None]).relu()
        return (hidden @ w["w2"].mT + w["b2"][:, None]).softmax(2)

    def log_likelihood(self, theta, rows):
        p = self.predict(theta, rows).log()
        return p.gather(2, rows["label"].expand(len(theta), -1)[..., None])[..., 0]

    def start(self, generator):
        return 0.3 * super().start(generator)
