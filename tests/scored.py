"""Results folders with made-up numbers for the tests of scoring and reports: ledger format in, real ingest."""

from __future__ import annotations

import hashlib
import json

import numpy as np
from fabricated import environment, result, spec
from safetensors.numpy import save

from harness.contracts.hookspecs import Info
from harness.contracts.registry import Offer
from harness.reporting.report import Request
from harness.results import timings
from harness.results.store import Store
from harness.system.errors import UsageError
from harness.system.files import sealed, write_json

UNITS = {
    "modes_covered": ("modes", "max", None),
    "within_mode_covariance_ratio": ("1", "target", 1.0),
    "mode_mass_tv": ("1", "min", None),
    "share_within_r": ("1", "target", 0.647),
    "last_mode_first_visit": ("steps", "min", None),
    "wasserstein2": ("1", "min", None),
    "wasserstein2_baseline": ("1", "target", None),
    "paper_ess_median": ("draws", "max", None),
    "paper_ess_mean": ("draws", "max", None),
    "ess_bulk": ("draws", "max", None),
    "ess_tail": ("draws", "max", None),
    "rhat": ("1", "min", None),
    "joint_error": ("1", "min", None),
    "mean_error": ("sd", "min", None),
    "variance_ratio": ("1", "target", 1.0),
    "temperature": ("1", "target", 1.0),
}


def write_run(
    results, *, method="sgld", task="mixture25", seed=0, chains=4, metrics=None, curves=None, number=0, files=None,
    params=None, sampler=None, sampler_params=None, status="done", versions=None, passes=1000.0, origins=None,
    **changes,
):  # fmt: skip
    """One concluded attempt. `params` are the schedule's; `changes` go into spec.json."""
    document = spec(seed, task=task, method=method, chains=chains)
    document["sampler"] = {**document["sampler"], "name": sampler or method.removeprefix("c")}
    if sampler_params is not None:
        document["sampler"]["params"] = sampler_params
    document["schedule"] = {
        **document["schedule"],
        "name": "cyclical" if method.startswith("c") else "constant",
        "params": params or {"step_size": 0.02, "temperature": 1.0},
    }
    protocol = changes.get("protocol", document["protocol"])
    document["task"] = {**document["task"], "protocol": protocol, **changes.pop("task_part", {})}
    document["origins"] = origins if origins is not None else document["origins"]
    document |= changes
    plain = {k: v for k, v in document.items() if k not in {"key", "group", "method", "budget", "origins"}}
    document["key"] = _digest(plain)
    document["group"] = _digest({k: v for k, v in plain.items() if k != "seed"})
    attempt = f"20260102T0304{number:02d}-{document['key'][:6]}"
    folder = results / "runs" / document["key"][:2] / document["key"] / attempt
    folder.mkdir(parents=True)
    (folder / "spec.json").write_text(json.dumps(document))
    (folder / "environment.json").write_text(json.dumps(environment()))
    line = {"time": "2026-01-02T03:04:05+00:00", "event": "finished" if status == "done" else "failed"}
    (folder / "events.jsonl").write_text(json.dumps(line) + "\n")
    written = dict(files or {})
    if curves:
        pairs = [(f"{n}/{axis}", v) for n, xy in curves.items() for axis, v in zip("xy", xy, strict=True)]
        arrays = {name: np.ascontiguousarray(v, dtype=float) for name, v in pairs}
        written["curves.safetensors"] = save(arrays)
    for name, content in written.items():
        (folder / name).write_bytes(content)
    record = result(
        attempt, document["key"], {name: hashlib.sha256(c).hexdigest() for name, c in written.items()},
        status=status, passes=passes, draws_kept=5000, metrics=_metrics(metrics or {}, versions or {}),
    )  # fmt: skip
    if status == "diverged":
        record |= {"step": 120, "chain": 2, "reason": f"chain 2 of seed {seed} became non-finite at step 120"}
    (folder / "result.json").write_text(json.dumps(record))
    return document


def store(results):
    """The store over a folder, ingested; a note of the ingest is a failure."""
    filled = Store(results)
    notes = filled.refresh()
    assert notes == ([] if (results / "runs").is_dir() else [f"there are no runs in {results}"]), notes
    return filled


def time_rows(results, seconds=50.0):
    """Timings of all rows of a folder, as `bench time` writes them, so that a run takes these seconds."""
    for path in results.glob("runs/*/*/*/spec.json"):
        record = json.loads(path.read_text())
        folder = results / timings.FOLDER
        folder.mkdir(exist_ok=True)
        timing = {"seconds_a_step": seconds / record["steps"], "machine": "a machine"}
        write_json(folder / f"{record['group']}.json", sealed(timing))


TARGETS = {
    "mixture25": "tasks.synthetic.mixture25:Mixture25", "blr-heart": "tasks.regression.blr:Heart",
    "constant": "plugins.schedules.constant:Constant", "cyclical": "plugins.schedules.cyclical:Cyclical",
    "sgld": "plugins.samplers.sgld:SGLD", "msgld": "plugins.samplers.msgld:MSGLD",
    "asgld": "plugins.samplers.asgld:ASGLD",
}  # fmt: skip


class Offers:
    """A registry of plugins by name, without the entry points of an installed package."""

    def __init__(self, targets):
        self.targets = TARGETS | targets

    def offers(self, kind):
        return []

    def facts(self, kind):
        return []

    def find(self, kind, name):
        if name not in self.targets:
            raise UsageError(f"unknown {kind} {name}")
        return Offer(Info(name, self.targets[name]), kind, "tests", "sgmcmc-bench", "0.1.0")


def request(targets=(), **asked):
    """A request whose registry has `TARGETS` and these targets by name."""
    return Request(registry=Offers(dict(targets)), **asked)


def moments(mean_error=0.0, variance_ratio=1.0, dim=2):
    """The curves that the gate looks at, of a run whose coordinates are independent: all means and variances alike."""
    lower = np.diag(np.full(dim, float(variance_ratio)))[np.tril_indices(dim)]
    return {
        "whitened_mean": (np.arange(dim), np.full((1, dim), mean_error)),
        "whitened_second": (np.arange(len(lower)), lower[None]),
    }


def low_error(costs, chains=4, points=50, passes=1000.0):
    """b2 curves that fall to 0.005 at `costs`[chain] for good; a cost beyond the budget is never reached."""
    x = np.linspace(passes / points, passes, points)
    y = np.where(x[None] >= np.broadcast_to(costs, chains)[:, None], 0.005, 0.5)
    return {"joint_b2_z_max": (x, y), "joint_b2_z2_max": (x, y)}


def final_errors(errors):
    """Errors (C, K) of each chain's averages of z along K directions at the end; those of z^2 are half as large."""
    y = np.concatenate([np.asarray(errors, dtype=float), np.asarray(errors, dtype=float) / 2], axis=1)
    return {"joint_error": (np.arange(y.shape[1]), y)}


def _metrics(values, versions):
    rows = []
    for i, (name, value) in enumerate(values.items()):
        unit, direction, target = UNITS.get(name, ("1", "max", None))
        rows.append({
            "name": name, "value": value, "version": versions.get(name, 1), "unit": unit, "direction": direction,
            "target": target, "primary": i == 0,
        })  # fmt: skip
    return rows


def _digest(record):
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
