"""Three rows of the study on moved instances of their targets: rotated, reflected and shifted, as each seed says.

A sampler whose step is the same in all coordinate systems has the same errors there, up to noise; one that knows the
answer has not.
"""

import json
import random
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import stats

from harness import Bench
from plugins.fresh_seeds import fresh_seeds

pytestmark = [pytest.mark.slow, pytest.mark.numbers]
PUBLISHED = Path(__file__).parents[2] / "docs/field/study-densities.json"
SEASON, CHAINS, CHOSEN = 4, 8, 3
ROTATED_ALIKE = {"sgld", "sghmc", "baoab", "sgnht", "msgld", "csgld", "resgld", "ggmc", "hmc", "mclmc"}
"""The samplers of the study whose step is the same in all coordinate systems: not psgld and asgld."""


def chosen():
    """Some ranked rows, by a seed that was chosen before any of them was run on a moved instance."""
    board = json.loads(PUBLISHED.read_text(encoding="utf-8"))["leaderboard"] if PUBLISHED.is_file() else []
    rows = [(one["task"], one["protocol"], one["method"]) for one in board if one["ranked_by"] and one["rank"]]
    alike = sorted({row for row in rows if row[2] in ROTATED_ALIKE})
    return random.Random(20261129).sample(alike, min(CHOSEN, len(alike)))


@pytest.mark.parametrize("row", chosen(), ids="-".join)
def test_a_row_has_the_same_error_on_moved_instances(tmp_path, row):
    task, protocol, method = row
    seeds = fresh_seeds(30 if task in {"bimodal1d", "mixture5", "mixture25"} else 20, "season", SEASON)
    errors = []
    for moved in (False, True):
        results = Bench(tmp_path / str(moved)).run(
            method, f"{task}@{protocol}", seeds=seeds, chains=CHAINS, budget="quick", study="tuned",
            settings={"run.moved": moved},
        )  # fmt: skip
        errors.append(np.log(results.metrics.filter(pl.col("metric") == "joint_error")["value"].to_numpy()))
    assert [len(one) for one in errors] == [len(seeds)] * 2
    assert (errors[0] != errors[1]).all()
    assert stats.ttest_ind(*errors, equal_var=False).pvalue > 1e-3
