"""The entropy report: lines of kept entropies, the order of its tables, what is missing said."""

import numpy as np
import pytest
import scored
from safetensors.numpy import save
from scored import store, write_run

from harness import UsageError
from harness.reporting.report import Request
from reports.figures.entropy import SEEN, Entropy, _panels, _styles, unseen_sets

METRICS = {
    "test_error": ("%", "min", None),
    "entropy_letters": ("nats", "max", None),
    "low_entropy_mass_letters": ("1", "min", None),
    "auroc_letters": ("1", "max", None),
    "aupr_letters": ("1", "max", None),
    "fpr95_letters": ("1", "min", None),
}


@pytest.fixture(autouse=True)
def units(monkeypatch):
    monkeypatch.setattr(scored, "UNITS", {**scored.UNITS, **METRICS})


def entropies(mean, seed):
    generator = np.random.default_rng(seed)
    unseen = np.minimum(generator.gamma(2.0, mean / 2, size=400), np.log(10)).astype(np.float32)
    return {"entropy_test": 0.1 * generator.random(300, dtype=np.float32), "entropy_letters": unseen}


@pytest.fixture
def results(tmp_path):
    for method, mean, auroc in (("sgd", 0.5, 0.90), ("csgld", 1.5, 0.97)):
        for seed in range(5):
            arrays = entropies(mean, seed)
            values = {
                "test_error": 2.0 + 0.1 * seed,
                "entropy_letters": float(arrays["entropy_letters"].mean()),
                "low_entropy_mass_letters": float((arrays["entropy_letters"] < 0.5).mean()),
                **dict.fromkeys(("auroc_letters", "aupr_letters"), auroc - 0.001 * seed),
                "fpr95_letters": 1 - auroc,
            }
            files = {"arrays.safetensors": save(arrays)}
            write_run(tmp_path, method=method, task="digits", seed=seed, chains=1, metrics=values, files=files)
    return tmp_path


def test_the_metric_to_rank_by_may_be_chosen_and_must_exist(results):
    built = Entropy().build(store(results), Request(metric="low_entropy_mass_letters"))
    assert {record["metric"] for record in built.records if record["ranked_by"]} == {"low_entropy_mass_letters"}
    with pytest.raises(UsageError, match="did you mean"):
        Entropy().build(store(results), Request(metric="low_entropy_mass_leters"))


def test_lines_are_of_all_seeds_and_the_legend_goes_from_the_top_line_to_the_lowest(results):
    from harness.reporting.scores import score_fields

    filled = store(results)
    (score,) = score_fields(filled, Request())
    assert unseen_sets(score) == ["letters"]
    panels, missing = _panels(score)
    assert list(panels) == [SEEN, "letters"]
    assert not missing
    assert {label: len(seeds) for label, seeds in panels["letters"].items()} == {"csgld": 5, "sgd": 5}
    assert list(_styles(panels)) == ["sgd", "csgld"]


def test_missing_entropies_are_said_and_other_tasks_are_left_alone(tmp_path):
    write_run(tmp_path, task="digits", metrics={"test_error": 2.0, "entropy_letters": 1.0, "auroc_letters": 0.9})
    write_run(tmp_path, metrics={"modes_covered": 25.0}, number=1)
    built = Entropy().build(store(tmp_path), Request())
    assert built.notes == ["sgld: no finished run with entropies"]
    assert not built.figures
    assert len(built.tables) == 1
