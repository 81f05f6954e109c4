"""Every report on one small results folder: its Markdown to the byte, its records but for rounding.

`python tests/report/test_report_bytes.py` writes `golden/` anew; look at the difference before you commit it.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

import scored
from safetensors.numpy import save

from harness.contracts.parameters import Configurable
from harness.contracts.registry import load
from harness.reporting.rendering import figures, render
from reports import bench_reports
from reports.orderings import load_orderings
from tasks.synthetic.mixture25 import Mixture25

pytestmark = pytest.mark.numbers

GOLDEN = Path(__file__).parent / "golden"
ELSEWHERE = {
    "theorem1": "test_theorem1", "theorem3": "test_theorem1", "functions": "test_functions_report",
    "shift": "test_shift_report", "step-bias": "test_step_bias",
}  # fmt: skip
"""What holds the bytes of the others: they are long, or need no run."""
REPORTS = {info.name: info.target for info in bench_reports() if info.name not in ELSEWHERE}
UNITS = {
    "test_error": ("%", "min", None), "nll": ("nats", "min", None), "single_test_error": ("%", "min", None),
    "entropy_letters": ("nats", "max", None), "auroc_letters": ("1", "max", None),
    "low_entropy_mass_letters": ("1", "min", None),
}  # fmt: skip
PAPER = {"budget": "paper", "steps": 400, "burn_in": 0, "thin": 1, "origins": {}}


DECLARED = load_orderings()[:20]
"""The statements of these reports: those that are declared later, at the end of the file, change nothing."""


class Network(Configurable):
    """A classifier whose error along a line is made of its ends."""

    def steps_per_epoch(self):
        return 10

    def dim(self):
        return 3

    def build(self, streams, device):
        return self

    def on_line(self, ends, statistics, places):
        t = np.array(places)
        return {"as they are": ends[0, 0].item() * (1 - t) + ends[1, 0].item() * t + 12 * t * (1 - t)}


class Line(Mixture25):
    """A target for the report of velocities, which asks for this setting."""

    def __init__(self, gradient_noise=0.0):
        super().__init__()


TARGETS = {"digits": f"{__name__}:Network", "line": f"{__name__}:Line"}


def schedule(**settings):
    return {"step_size": 0.09, "temperature": 1.0, "cycles": 2, "beta": 0.5, **settings}


def write_mixture(results, noise, exact):
    """sgld and csgld as published, with 1 and 4 chains, one seed that diverged, and a run of a user's setting."""
    for method, spread, modes in (("sgld", 1.0, 2), ("csgld", 4.7, 17)):
        for chains in (1, 4):
            for seed in range(5):
                z = noise[seed] * (1 + chains)
                metrics = {
                    "modes_covered": float(modes + seed % 2),
                    "within_mode_covariance_ratio": spread + 0.01 * z,
                    "wasserstein2": 1.0 + 0.1 * z,
                    "wasserstein2_baseline": 0.946,
                    "mode_mass_tv": 0.2 + 0.01 * z,
                    "mean_error": 0.05,
                    "last_mode_first_visit": None if method == "sgld" else 3000.0 + seed,
                }
                errors = 0.05 * modes + 0.02 * noise[seed : seed + chains, None] * np.ones(2)
                curves = {
                    **scored.moments(0.02 * z, 1 + 0.02 * z),
                    **scored.final_errors(errors),
                    **scored.low_error([300.0 * chains, 400, 500, 2000][:chains], chains),
                    "chain_error_z": (np.arange(2), errors),
                }
                draws = exact[: 50 * chains].reshape(50, chains, 2).astype(np.float32)
                files = {"draws.safetensors": save({"draws": draws, "steps": np.arange(1, 51) * (1 + chains // 4)})}
                params = schedule() if method == "csgld" else None
                scored.write_run(
                    results, method=method, seed=seed, chains=chains, metrics=metrics, curves=curves, files=files,
                    passes=400.0 / chains, params=params, **PAPER,
                )  # fmt: skip
    scored.write_run(results, method="sghmc", seed=0, chains=1, status="diverged", **PAPER)
    by_user = {"schedule.step_size": {"value": 0.02, "provenance": "user", "source": ""}}
    scored.write_run(results, method="msgld", chains=1, metrics={"modes_covered": 3.0}, **{**PAPER, "origins": by_user})
    scored.write_run(
        results, task="line", chains=1, metrics={"rhat": 1.01}, task_part={"params": {"gradient_noise": 0.0}},
        files={"draws.safetensors": save({"draws": exact[:100, None].copy(), "steps": np.arange(1, 101)})}, **PAPER,
    )  # fmt: skip


def write_classifiers(results, noise):
    """Temperatures, (M, beta) and several chains of one classifier, with arrays and curves of its draws."""
    grid = [
        *(("csgld", 1, schedule(temperature=t)) for t in (0.0, 0.1, 1.0)),
        *(("csgld", 1, schedule(cycles=m, beta=b)) for m, b in ((4, 0.5), (4, 0.8))),
        ("csgld", 4, schedule()), ("sgld", 1, None), ("sgld", 4, None),
    ]  # fmt: skip
    generator, x = np.random.default_rng(1), np.arange(1.0, 7)
    cycle, steps = np.array([0, 0, 0, 1, 1, 1]), np.arange(10, 70, 10)
    for k, (method, chains, params) in enumerate(grid):
        for seed in range(5):
            error = 3.0 + k / 4 + 0.1 * noise[seed + k]
            values = {"test_error": error, "nll": error / 10, "single_test_error": 2 * error}
            values |= {"entropy_letters": 1.0 + k / 10, "auroc_letters": 0.9 + 0.01 * noise[seed]}
            values |= {"low_entropy_mass_letters": 0.3}
            curve = error + 6 - np.arange(6.0)
            singles = 2 * error - np.arange(6.0) + np.arange(chains)[:, None]
            curves = {"test_error": (x, curve[None]), "nll": (x, curve[None] / 10)}
            curves |= {"single_test_error": (x, singles), "single_train_nll": (x, singles / 1e4)}
            cycles = cycle * (method == "csgld")
            shares = generator.dirichlet(np.ones(3), size=(cycles.max() + 1, chains, 20)).astype(np.float32)
            arrays = {
                "cycle": np.repeat(cycles, chains), "chain": np.tile(np.arange(chains), 6),
                "steps": np.repeat(steps, chains),
                "sketch": generator.normal(size=(6 * chains, 8)) + cycles.repeat(chains)[:, None],
                "cycle_predictions": shares, "cycle_numbers": np.unique(cycles), "train_terms": np.array([1000]),
                "test_labels": np.zeros(20, dtype=np.int64),
                "entropy_test": 0.1 * generator.random(30), "entropy_letters": generator.random(40) + k / 10,
            }  # fmt: skip
            theta = np.tile(steps[:, None, None], (1, chains, 3)).astype(np.float32)
            draws = save({"draws": theta, "steps": steps})
            scored.write_run(
                results, task="digits", method=method, seed=seed, chains=chains, metrics=values, params=params,
                curves=curves, files={"arrays.safetensors": save(arrays), "draws.safetensors": draws},
                passes=6.0 / chains, budget=f"passes={6 // chains}", steps=60, burn_in=0, thin=1, origins={},
            )  # fmt: skip


def write_regressions(results, noise):
    for k, method in enumerate(("sgld", "csgld")):
        for seed in range(6):
            z = noise[seed]
            metrics = {"paper_ess_median": 900.0 + 50 * k + 10 * z, "ess_bulk": 100.0 + z, "mean_error": 0.03}
            curves = {**scored.moments(0.01 * z, 1 + k + 0.01 * z, 14)}
            curves |= {"chain_error_z": (np.arange(14), np.full((1, 14), 0.1 + 0.01 * k))}
            scored.write_run(
                results, method=method, task="blr-heart", seed=seed, chains=1, metrics=metrics, curves=curves,
                params=schedule() if k else None, passes=100.0, **PAPER,
            )  # fmt: skip


def written(results):
    noise, exact = np.random.default_rng(0).normal(size=20), Mixture25().sample(500, np.random.default_rng(0))
    write_mixture(results, noise, exact)
    write_classifiers(results, noise)
    write_regressions(results, noise)
    scored.time_rows(results)
    return scored.store(results)


def shown(store, name):
    """A report's Markdown with its notes and figures, its records, and what both were rendered from."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("reports.figures.interpolation.errors_on_line", lambda task, *line: task.on_line(*line))
        for of in ("findings", "needed_seeds"):
            patch.setattr(f"reports.tables.{of}.load_orderings", lambda: DECLARED)
        built = load(REPORTS[name])().build(store, scored.request(TARGETS))
    about = [f"note: {note}" for note in built.notes]
    about += [f"figure: {one.name}, {one.size[0]:g} x {one.size[1]:g}, {one.caption}" for one in built.figures]
    text = "\n".join([f"# {name}", *about, render(built, "markdown")])
    return text, json.loads(render(built, "json")), built


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scored, "UNITS", {**scored.UNITS, **UNITS})
        return written(tmp_path_factory.mktemp("golden"))


@pytest.mark.parametrize("name", sorted(REPORTS))
def test_reports_are_what_they_were(results, name):
    text, records, built = shown(results, name)
    assert text == (GOLDEN / f"{name}.md").read_text(encoding="utf-8")
    assert summary(records) == json.loads((GOLDEN / "records.json").read_text())[name]
    columns = [c for table in built.tables if not isinstance(table, str) for c in (*table.columns, *table.more)]
    assert not [column for column in columns if "," in column.key + column.header]
    for form in ("table", "csv", "latex", "html"):
        assert bool(render(built, form)) == bool(built.records)
    for figure in built.figures[:1]:
        assert len(figures.drawn(figure, "svg")[0]) <= figures.LIMIT


def summary(records):
    """How many there are, and by field, in order, the sum of its numbers or how many other values it has."""
    fields = list(dict.fromkeys(field for record in records for field in record))
    totals = {}
    for field in fields:
        values = [record[field] for record in records if isinstance(record.get(field), (int, float))]
        totals[field] = float(f"{sum(values):.5g}") if values else len({json.dumps(r.get(field)) for r in records})
    return {"records": len(records), **totals}


if __name__ == "__main__":
    import tempfile

    scored.UNITS |= UNITS
    with tempfile.TemporaryDirectory() as folder:
        filled = written(Path(folder))
        pages = {name: shown(filled, name) for name in REPORTS}
    GOLDEN.mkdir(exist_ok=True)
    for name, (text, *_) in pages.items():
        (GOLDEN / f"{name}.md").write_text(text, encoding="utf-8")
    heads = {name: summary(records) for name, (_, records, _) in pages.items()}
    (GOLDEN / "records.json").write_text(json.dumps(heads, indent=1) + "\n")
