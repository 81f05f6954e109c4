"""Run keys, spec.json and the rows of the store, as they were: `python test_golden_records.py` writes them anew."""

import hashlib
import json
import tempfile
from pathlib import Path

import numpy as np
from safetensors.numpy import save
from specs import run_spec

from harness.results.ledger.attempt import Attempt, checksum
from harness.results.spec import Component, Origin, from_record, recorded_key
from harness.results.store import Store
from harness.system.files import sealed, write_json
from plugins.upkeep import rescored_record

GOLDEN = Path(__file__).with_name("records.json")
PART = {"target": "m:C", "source": "0" * 64}
SPECS = {
    "plain": run_spec(),
    "another sampler": run_spec(
        3,
        sampler=Component("sghmc", "plugins.samplers.sghmc:SGHMC", "a" * 64, {"friction": 0.1, "noise": None}),
        schedule=Component("cyclical", params={"step_size": 1e-05, "cycles": 4}, **PART),
        method="csghmc", budget="passes=150000", burn_in=2, thin=3, chains=1, dtype="float32",
    ),
    "compiled": run_spec(1, compile="compiled", deterministic=False, data="d" * 64, task_version=7, protocol="é"),
    "cuda": run_spec(2, device="cuda", tf32=True),
    "cuda compiled": run_spec(2, device="cuda", compile="compiled", cudnn_benchmark=True),
    "settings of a GPU, on a CPU": run_spec(2, tf32=True, cudnn_benchmark=True),
    "moved": run_spec(2, moved=True),
    "warm start": run_spec(
        4, warm_start="adam", warm_passes=20.0, warm_step_size=0.001, warm_source="e" * 64, steps=9
    ),
    "origins": run_spec(
        origins={
            "schedule.step_size": Origin(0.1, "paper", "csgmcmc: section 5.1"),
            "needs.terms": Origin("as the task provides it", "given", "the task"),
            "sampler.a": Origin(None, "default"),
        },
    ),
}  # fmt: skip
ENVIRONMENT = {
    "bench": "0.1.0", "python": "3.11.7", "platform": "Linux 6 x86_64", "cpu": "a processor", "cores": 2, "gpu": None,
    "torch": "2.9.0", "device": "cpu", "threads": 1, "deterministic": True, "matmul_precision": "highest",
    "packages": {"numpy": "2.0.0"},
    "code": {
        "sgmcmc-bench": {"version": "0.1.0", "commit": "a" * 40, "dirty": False},
        "one-off": {"version": None, "commit": None, "dirty": None},
    },
}  # fmt: skip
METRICS = [
    {"name": "a", "value": 0.5, "version": 1, "unit": "1", "direction": "max", "target": None, "primary": True},
    {"name": "b", "value": None, "version": 3, "unit": "sd", "direction": "target", "target": 1.0, "primary": False},
]
RESULT = {
    "reason": None, "step": None, "chain": None, "started": "2026-01-02T03:04:05.125+00:00",
    "finished": "2026-01-02T03:05:05+00:00", "block_runs": 2,
    "seconds": {"sampling": 50.0, "observing": 8, "checkpoint": 1.0, "setup": 1.5},
    "steps_done": 10, "passes": 10.5, "passes_per_step": 1.0, "draws_kept": 9, "draws_stored": 5, "draws_stride": 2,
}  # fmt: skip


def attempt(results, spec, number, events=("created", "started"), **result):
    """An attempt as workers write it, but for its name and its times, which are the same each time."""
    new = Attempt(results / "runs" / spec.key[:2] / spec.key / f"20260102T0304{number:02d}-{number:06x}")
    new.path.mkdir(parents=True)
    digest = environment_id()
    write_json(new.path / "environment.json", {"id": digest, **ENVIRONMENT})
    new.describe(spec)
    lines = [
        {"time": f"2026-01-02T03:04:{i:02d}+00:00", "event": event, "position": i} for i, event in enumerate(events)
    ]
    (new.path / "events.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    if result:
        x = np.arange(3.0)
        (new.path / "curves.safetensors").write_bytes(
            save({"c/x": x, "c/y": np.stack([x, np.where(x, x / 3, np.nan)])})
        )
        files = {name: checksum(new.path / name) for name in ("curves.safetensors", "environment.json", "spec.json")}
        record = {**RESULT, "metrics": METRICS, **result, "attempt": new.id, "key": spec.key, "files": files}
        write_json(new.path / "result.json", sealed(record))
    return new


def environment_id():
    return hashlib.sha256(json.dumps(ENVIRONMENT, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def described():
    """The forms of all specs."""
    return {
        name: {
            "key": spec.key, "group": spec.group, "canonical": json.dumps(spec.canonical(), sort_keys=True),
            "json": json.dumps(spec.to_json(), sort_keys=True),
        }
        for name, spec in SPECS.items()
    }  # fmt: skip


def stored(folder):
    """The rows of all tables of a small results folder, and the columns of its views."""
    results = folder / "results"
    for number, name in enumerate(("another sampler", "cuda compiled", "origins")):
        attempt(results, SPECS[name], number, status="done")
    attempt(results, run_spec(11), 21, status="diverged", step=3, chain=1, reason="non-finite", metrics=[])
    attempt(results, run_spec(12), 22, status="timeout", seconds={}, steps_done=None, passes=None, metrics=[])
    attempt(results, run_spec(12), 23, ("created", "started", "preempted"))
    attempt(results, run_spec(13), 24, ())
    again = attempt(
        results, run_spec(14), 25, status="done", executed="plain", compiled=0, graphs=0, why_plain="no compiler"
    )
    rescored_record.write(
        again, [{**METRICS[0], "value": 0.75, "version": 2}], {"c/x": np.ones(1), "c/y": np.ones((1, 1))}, {}
    )
    store = Store(results)
    assert store.refresh() == []
    tables = {}
    for row in store.rows("select table_name as name, table_type as kind from information_schema.tables order by name"):
        names, values = store.table(f"from {row['name']} order by all")
        told = (
            [dict(zip(names, value, strict=True)) for value in values]
            if row["kind"] == "BASE TABLE"
            else [sorted(names)]
        )
        tables[row["name"]] = json.loads(json.dumps(told, default=str, sort_keys=True))
    return {name: rows for name, rows in tables.items() if name != "meta"}


def test_run_keys_and_their_records_stay_as_they_are():
    assert described() == json.loads(GOLDEN.read_text())["specs"]


def test_records_read_back_as_they_were_written():
    for spec in SPECS.values():
        record = json.loads(json.dumps(spec.to_json()))
        assert recorded_key(record) == spec.key
        assert from_record(record).to_json() == spec.to_json()


def test_the_rows_of_every_table_stay_as_they_are(tmp_path):
    tables, golden = stored(tmp_path), json.loads(GOLDEN.read_text())["tables"]
    assert tables.keys() == golden.keys()
    for name, rows in golden.items():
        assert tables[name] == rows, name


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made_in:
        parts = {"specs": described(), "tables": stored(Path(made_in))}
    lines = [f"{json.dumps(name)}: {json.dumps(part[name])}" for part in parts.values() for name in part]
    half = len(parts["specs"])
    specs, tables = ",\n".join(lines[:half]), ",\n".join(lines[half:])
    GOLDEN.write_text(f'{{"specs": {{\n{specs}\n}}, "tables": {{\n{tables}\n}}}}\n')
