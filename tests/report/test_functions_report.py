"""The report of functions of theta: moments of stored draws by their weights, beside the truth."""

from types import SimpleNamespace

import numpy as np
import pytest

from reports.tables.functions import Functions

NAMES = {"tau": ["tau"], "pi": ["pi[1]", "pi[2]"]}
TRUTH = np.array([[2.0, 0.5, np.nan], [0.5, 0.1, np.nan]])


def stored(seed):
    rng = np.random.default_rng(seed)
    draws = {"function_tau": rng.normal(size=(2, 30, 1)), "function_pi": rng.normal(size=(2, 30, 2))}
    return draws | {"kept_weights": rng.uniform(size=(2, 30)), "true_moments": TRUTH}


def built(task, arrays, tasks=("mine",)):
    fields = ("task", "task_version", "protocol", "method", "chains", "budget", "steps")
    runs = [SimpleNamespace(key=f"{seed}", seed=seed) for seed in range(len(arrays))]
    group = SimpleNamespace(key="a", done=runs, settings={}, **dict.fromkeys(fields, "mine"))
    score = SimpleNamespace(
        groups=[group], labels={"a": "sgld"}, title="mine", failures=list, arrays=lambda run, *_: arrays[run.seed]
    )
    request = SimpleNamespace(plugin=lambda *_, **__: task, tasks=tasks)
    return Functions().of_field(score, request, "functions")


def test_moments_are_those_of_all_stored_draws():
    seeds = [stored(seed) for seed in range(3)]
    result = built(SimpleNamespace(function_names=lambda: NAMES), seeds)
    rows = {row["function"]: row for row in result.records}
    assert list(rows) == ["tau", "pi[1]", "pi[2]"]
    tau = np.concatenate([each["function_tau"].ravel() for each in seeds])
    shares = np.concatenate([each["kept_weights"].ravel() / each["kept_weights"].sum() / 3 for each in seeds])
    mean = shares @ tau
    assert rows["tau"]["mean"] == pytest.approx(mean)
    assert rows["tau"]["sd"] == pytest.approx(np.sqrt(shares @ (tau - mean) ** 2))
    assert rows["tau"]["error"] == pytest.approx((mean - 2) / 0.5)
    assert rows["pi[2]"]["true_mean"] is rows["pi[2]"]["error"] is None
    assert rows["tau"]["seeds"] == 3
    (table,) = result.tables
    assert [row["true_mean"] for row in table.rows] == ["2.00", "0.500", "-"]


def test_what_is_missing_is_said():
    assert "states no functions" in built(SimpleNamespace(), []).notes[0]
    assert not built(SimpleNamespace(), [], tasks=()).notes
    result = built(SimpleNamespace(function_names=lambda: NAMES), [None])
    assert result.notes == ["sgld: no finished run with functions of its draws"]
    assert not result.tables
