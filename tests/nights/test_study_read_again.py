"""Three statements of the study, read a second time: from raw draws, by code that shares nothing with the reports'.

For each direction v of the truth z = (v theta - E v theta) / sd, and f is z, z^2 or whether v theta is below a
quantile. With avg a chain's average, b2_f = (avg f - E f)^2 / Var f, and the joint error is the largest mean of b2_f
over chains and seeds.
"""

import json
import random
from pathlib import Path

import numpy as np
import pytest

from harness import Bench
from plugins.fresh_seeds import fresh_seeds

pytestmark = [pytest.mark.slow, pytest.mark.numbers]
PUBLISHED = Path(__file__).parents[2] / "docs/field/study-densities.json"
SEASON, CHAINS, CHOSEN = 4, 8, 3


def statements():
    """Some of those whose factor is decided, by a seed that was chosen before there were results."""
    findings = json.loads(PUBLISHED.read_text(encoding="utf-8"))["findings"] if PUBLISHED.is_file() else []
    decided = [one for one in findings if one["finding"] == "ordering" and one["nearer"] and one["scale"] == "ratio"]
    return random.Random(20261128).sample(decided, min(CHOSEN, len(decided)))


def joint_error(bench, method, task, seeds):
    results = bench.run(method, task, seeds=seeds, chains=CHAINS, budget="quick", study="tuned", draws="all")
    total = 0.0
    for seed in seeds:
        read = results.draws(method=method, seed=seed)
        truth = read.task().truth()
        v = np.asarray(truth.directions)
        x = read.draws.astype(float) @ v.T
        z = (x - v @ truth.mean) / np.sqrt(np.einsum("ki,ij,kj->k", v, truth.covariance, v))
        w = read.weights / read.weights.sum(axis=1, keepdims=True)
        errors = [np.einsum("cn,cnk->ck", w, z) ** 2, (np.einsum("cn,cnk->ck", w, z**2) - 1) ** 2 / (truth.z4 - 1)]
        m = truth.quantiles.shape[1]
        for j, quantile in enumerate(truth.quantiles.T):
            level = (j + 0.5) / m
            errors.append((np.einsum("cn,cnk->ck", w, x <= quantile) - level) ** 2 / (level * (1 - level)))
        total = total + np.array(errors).mean(axis=1)
    return (total / len(seeds)).max()


@pytest.mark.parametrize("one", statements(), ids=lambda one: f"{one['better']}-{one['worse']}-{one['task']}")
def test_a_statement_holds_in_the_raw_draws(tmp_path, one):
    task = one["command"].partition("--task ")[2].split()[0]
    seeds = fresh_seeds(one["pairs"], "season", SEASON)
    better, worse = (joint_error(Bench(tmp_path), one[side], task, seeds) for side in ("better", "worse"))
    assert better / worse == pytest.approx(one["effect"], rel=1e-3)
    assert (better < worse) == (one["outcome"] == "better") == (one["nearer"] < 1)
