"""Logistic regression on a data set of the UCI repository, judged on rows that it was not trained on."""

from dataclasses import dataclass

import numpy as np

from harness import Info, hook, param
from harness.tasks import PREDICTIVE_METRICS, DataFile, DataTask, Protocol, locate

SHA = "f5f3b4204c285bafadd85cb735f38b47689f2be7047feb172dcbeab648110bf9"
URL = "https://archive.ics.uci.edu/ml/machine-learning-databases/statlog/heart/heart.dat"
HEART = DataFile(dataset="heart", path="uci/heart.dat", sha256=SHA, size=16461, urls=(URL,), licence="CC BY 4.0")


@dataclass(frozen=True, kw_only=True)
class HeartDisease(DataTask):
    """Heart disease by 13 attributes and a bias: 200 rows to train on, 70 to test."""

    datasets = (HEART,)
    metrics = PREDICTIVE_METRICS
    protocols = (Protocol("default", "ours", {"smoke": 1_000, "quick": 5_000, "paper": 20_000}, burn_in=0.5, thin=10),)
    prior_precision = 1.0
    batch: int = param(20, "[1, 200]", "rows in a minibatch", source="ours")

    def dim(self):
        return 14

    def arrays(self, part):
        rows = slice(0, 200) if part == "train" else slice(200, 270)
        table = np.loadtxt(locate(HEART))
        x = (table[:, :13] - table[:200, :13].mean(0)) / table[:200, :13].std(0)
        return {"x": np.column_stack([x, np.ones(270)])[rows], "label": (table[rows, 13] == 2).astype(int)}

    def logits(self, theta, rows):
        sick = (rows["x"] * theta[:, None]).sum(2)
        return sick[..., None] * sick.new_tensor([0.0, 1.0])


@hook
def bench_tasks():
    return [Info("heart-disease", "uci_classifier:HeartDisease", "logistic regression with held-out rows")]
