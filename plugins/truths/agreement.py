"""Posteriors by our long HMC against their public reference draws: docs/posteriordb.md and docs/field/posteriordb.json.

python -m plugins.truths.agreement FOLDER [--draws N]    compute what FOLDER has not, one file a task; then both
python -m plugins.truths.agreement                       the page from the JSON
"""

from __future__ import annotations

import argparse
import json
import time
import timeit
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
import torch
from scipy.stats import norm

from harness import diagnostics, registry, statistics
from harness.runs import instance
from harness.system import write_json
from harness.tasks import Streams
from plugins.truths.computing import SAMPLER, Lengths, quantiles_and_errors, whitened_draws
from plugins.truths.reference import ESS_LIMIT, LEVELS, Array

GROUP = "posteriordb"
DOCS = Path("docs")
STORED, PAGE = DOCS / "field" / "posteriordb.json", DOCS / "posteriordb.md"
STATISTICS = ("mean", "sd", "5 %", "50 %", "95 %")
SAMPLED_AS = {"pdb-eight-schools-centered": "pdb-eight-schools-noncentered"}
"""Tasks whose draws are those of another parametrisation of the same posterior."""
LENGTHS = Lengths(chains=64, burn_in=100, pilots=2, pilot_steps=100)
"""More and shorter chains than those of `bench truth`: a step of 64 chains takes little longer than one of 16."""
LEVEL = 0.05
"""Of the differences that remain after Holm's correction."""


def estimates(draws: Array, *, moments: bool = True) -> Array:
    """Return mean, sd and quantiles of draws (n, C), and their Monte Carlo errors, (5, 2).

    The error of a mean is sd / sqrt(ESS of x), that of an sd is sd / 2 sqrt((kurtosis - 1) / ESS of x^2), that of a
    quantile as `bench truth` states it. Without `moments`, the first two are NaN: the number has no variance.
    """
    mean, sd = draws.mean(), draws.std()
    z = (draws - mean) / sd
    size, size2 = diagnostics.bulk_ess(np.stack([z, z**2], 2))
    spread = sd / 2 * np.sqrt(((z**4).mean() - 1) / size2)
    first = [[mean, sd / np.sqrt(size)], [sd, spread]] if moments else np.full((2, 2), np.nan)
    return np.vstack([first, np.stack(quantiles_and_errors(draws, np.array(LEVELS)), 1)])


def differences(ours: Array, theirs: Array) -> Array:
    """Return the difference of estimates (..., 5, 2) in units of both errors, (..., 5)."""
    error = np.hypot(ours[..., 1], theirs[..., 1])
    return np.asarray((ours[..., 0] - theirs[..., 0]) / error)


def compared(task: Any, theta: Array) -> dict[str, Any]:
    """Return the record of draws (n, C, D) of theta beside the reference draws of a task."""
    judged = task.judged(torch.from_numpy(theta.reshape(-1, theta.shape[2]))).reshape(*theta.shape[:2], -1).numpy()
    reference, without = task.reference_draws(), getattr(task, "without_variance", ())
    numbers = {}
    for name, draws in zip(task.judged_names(), np.moveaxis(judged, 2, 0), strict=True):
        ours, theirs = (estimates(each, moments=name not in without) for each in (draws, reference[name]))
        numbers[name] = {
            "ours": _rounded(ours), "reference": _rounded(theirs), "z": _rounded(differences(ours, theirs)),
        }  # fmt: skip
    return {
        "posterior": task.posterior,
        "dimension": theta.shape[2],
        "chains": theta.shape[1],
        "draws": len(theta),
        "rhat": float(diagnostics.rank_normalised_split_rhat(judged).max()),
        "ess": float(diagnostics.bulk_ess(judged).min()),
        "numbers": numbers,
    }


def _rounded(values: Array) -> Any:
    if values.ndim > 1:
        return [_rounded(row) for row in values]
    return [None if np.isnan(value) else float(f"{value:.9g}") for value in values]


def compute(folder: Path, draws: int, only: Sequence[str] = (), lengths: Lengths = LENGTHS) -> None:
    """Write FOLDER/NAME.json for each task of the group that has none, the fastest gradients first."""
    folder.mkdir(parents=True, exist_ok=True)
    offers: list[Any] = [offer.info for offer in registry().offers("tasks")]
    tasks = {info.name: instance(info.target, {}) for info in offers if info.group == GROUP}
    hmc = instance("plugins.samplers.hmc:HMC", SAMPLER)
    torch.set_num_threads(1)
    waiting = [name for name in only or tasks if not (folder / f"{name}.json").exists()]

    def say(_: str, sent: Mapping[str, Any]) -> None:
        print(f"  {sent['text']}", flush=True)

    for name in sorted(waiting, key=lambda one: _seconds(tasks[one])):
        began, sampled = time.process_time(), SAMPLED_AS.get(name, name)
        path, other = (folder / f"{each}.json" for each in (name, sampled))
        if other.exists():
            record = json.loads(other.read_text())
        else:
            record = compared(
                tasks[sampled], whitened_draws(sampled, elsewhere(tasks[sampled]), hmc, draws, say, lengths=lengths)
            )
        seconds = round(time.process_time() - began)
        write_json(path, {**record, "task": name, "posterior": tasks[name].posterior, "seconds": seconds})
        print(f"{name}: {seconds} s", flush=True)


def elsewhere(task: Any) -> Any:
    """Return the task with starting points that do not depend on the reference draws."""
    cls = type(task)
    return type(cls.__name__, (cls,), {"start": getattr(cls, "start_without_reference", cls.start)})()


def _seconds(task: Any) -> float:
    """Return the time of a gradient."""
    problem = task.build([Streams(0, chain, ("time",)) for chain in range(LENGTHS.chains)], "cpu")
    theta = problem.initial()
    return min(timeit.repeat(lambda: problem.energy_and_gradient(theta, None), number=1, repeat=5))


def stored(folder: Path) -> dict[str, Any]:
    """Return the content of docs/field/posteriordb.json, from the files of `compute`."""
    records = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    sampler = {"name": "hmc", **SAMPLER, **LENGTHS._asdict()}
    del sampler["chains"]  # a posterior's own
    return {"command": "python -m plugins.truths.agreement FOLDER", "sampler": sampler, "posteriors": records}


def as_lines(content: Mapping[str, Any]) -> str:
    """Return the content as JSON with a line for each posterior."""
    *head, (last, records) = content.items()
    given = "".join(f"{json.dumps(key)}: {json.dumps(value)},\n" for key, value in head)
    lines = ",\n".join(map(json.dumps, records))
    return f"{{{given}{json.dumps(last)}: [\n{lines}\n]}}\n"


def adjusted(posteriors: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str, str], tuple[float, float]]:
    """Return z and Holm's p over all differences, by task, number and statistic."""
    z = {
        (record["task"], name, statistic): value
        for record in posteriors
        if record["task"] not in SAMPLED_AS  # whose draws are those of another
        for name, number in record["numbers"].items()
        for statistic, value in zip(STATISTICS, number["z"], strict=True)
        if value is not None
    }
    p = statistics.holm([float(2 * norm.sf(abs(value))) for value in z.values()])
    return {key: (value, each) for (key, value), each in zip(z.items(), p, strict=True)}


def page(content: Mapping[str, Any]) -> str:
    """Return docs/posteriordb.md."""
    posteriors, run = content["posteriors"], content["sampler"]
    all_z = adjusted(posteriors)
    values = np.array([z for z, _ in all_z.values()])
    significant = {key: pair for key, pair in all_z.items() if pair[1] < LEVEL}
    shares = ", ".join(
        f"{100 * np.mean(np.abs(values) > limit):.1f} % beyond {limit} ({200 * norm.sf(limit):.1f} %)"
        for limit in (1, 2, 3)
    )
    (task, number, statistic), (largest, p) = max(all_z.items(), key=lambda item: abs(item[1][0]))
    verdict = (
        f"{len(significant)} of the differences remain after Holm's correction at {LEVEL}:"
        if significant
        else f"None remains after Holm's correction at {LEVEL}: the smallest adjusted p is {p:.2g}."
    )
    rows = [_row(record, all_z) for record in posteriors]
    numbers = [
        [record["task"], f"`{name}`", *("" if z is None else f"{z:.1f}" for z in number["z"])]
        for record in posteriors
        for name, number in record["numbers"].items()
    ]
    kept = [
        f"- {task}, {number}, {what}: z = {z:.1f}, adjusted p = {p:.2g}"
        for (task, number, what), (z, p) in significant.items()
    ]
    summary = (
        f"Of the {len(values):,} differences, {shares}; the share in brackets is that of a normal distribution. The "
        f"largest is {largest:.1f}, that of {number} ({statistic}) of {task}. {verdict}"
    )
    lines = [
        HEAD.format(burn_in=run["burn_in"], pilots=run["pilots"], posteriors=len(posteriors), loose=_loose(posteriors)),
        fill(summary, 120),
        *kept,
        EXCEPTIONS,
        "## By posterior\n",
        table(
            rows,
            [
                "task",
                "posterior",
                "D",
                "chains x draws",
                "least ESS",
                "R-hat",
                "largest difference",
                "of",
                "adjusted p",
            ],
        ),
        "## All differences\n",
        table(numbers, ["task", "number", *STATISTICS]),
    ]
    return "\n".join(lines)


def _loose(posteriors: Sequence[Mapping[str, Any]]) -> str:
    """Return how far the chains are from the limits of `bench truth`."""
    rhat, few = [record["rhat"] for record in posteriors], sum(record["ess"] < ESS_LIMIT for record in posteriors)
    return f"R-hat is {min(rhat):.3f} to {max(rhat):.3f}, and {few} of the {len(rhat)} have fewer effective draws"


def _row(record: Mapping[str, Any], all_z: Mapping[tuple[str, str, str], tuple[float, float]]) -> list[str]:
    sampled = SAMPLED_AS.get(record["task"], record["task"])
    of_task = {key: pair for key, pair in all_z.items() if key[0] == sampled}
    (_, number, statistic), (z, p) = max(of_task.items(), key=lambda item: abs(item[1][0]))
    shown = [record["task"], record["posterior"], str(record["dimension"]), f"{record['chains']} x {record['draws']}"]
    quality = [f"{record['ess']:,.0f}", f"{record['rhat']:.3f}", f"{z:.1f}", f"`{number}`, {statistic}"]
    return [*shown, *quality, f"{p:.2g}"]


def table(rows: Sequence[Sequence[str]], columns: Sequence[str]) -> str:
    """Return a table in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


HEAD = """# posteriordb

    bench data fetch posteriordb
    bench run --sampler sgld,hmc --task posteriordb --budget smoke
    bench ls tasks                                # each with its posterior

The tasks of the group `posteriordb` are the posteriors of posteriordb 1.0 with reference draws, all but
`mcycle_gp-accel_gp`. Their densities were written anew from the statements of the models. Metrics of runs are errors
against the reference draws: 10 chains of 1,000, by Stan. The regressions also have minibatches (`TASK@minibatches`): a
row is a term, and the whole prior is in every gradient, as in trevorcampbell/subsampledposteriordb, which draws single
rows with replacement, where batches here pass through all rows.

## Against long HMC

Here the reference draws of {posteriors} posteriors are compared with our
draws, by the method of `bench truth`: HMC after {burn_in} steps of burn-in and {pilots} pilot runs, from starting
points that do not depend on the reference draws. The chains are shorter than those that `bench truth` accepts (R-hat
below 1.01 and effective sizes above 10,000); the errors allow for it:
{loose}.

    python -m plugins.truths.agreement FOLDER    # compute, resumably, and write this page (--chains, --draws as below)
    python -m plugins.truths.agreement           # write this page from docs/field/posteriordb.json

The mean, the standard deviation and three quantiles of every parameter are compared, on the constrained scale. A
difference is in units of the Monte Carlo errors of both sides, sqrt(e1^2 + e2^2), which use effective sample sizes.
[posteriordb.json](field/posteriordb.json) has all estimates with their errors.
"""
EXCEPTIONS = """
- `K_m` and `V_m` of pdb-one-comp-mm-elim-abs have no finite variance, so only their quantiles are compared.
- Of pdb-gp-pois-regr our chains explore the tails slowly, and their sds of `rho` and `alpha` are too small.
  Quadrature over `rho` and `alpha`, with importance sampling of the function, gives 0.677 and 0.787: those of the
  reference draws are right. It is a test in
  [test_posteriordb_models.py](../tests/unit/tasks/test_posteriordb_models.py).
- Centred eight schools was sampled in its non-centred form; the posterior of theta, mu and tau is the same.
- Differential equations are solved with fixed steps here, with adaptive ones in Stan; the errors of ours are stated
  in [differential_equations.py](../tasks/posteriordb/differential_equations.py).
"""


def main() -> None:
    """Compute what is missing, if a folder is given, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, help="results so far, a file for each task")
    parser.add_argument("--draws", type=int, default=150, help="draws of each chain (default 150)")
    parser.add_argument("--chains", type=int, default=LENGTHS.chains, help=f"chains (default {LENGTHS.chains})")
    parser.add_argument("--tasks", nargs="*", default=(), metavar="TASK", help="these alone, and no page")
    given = parser.parse_args()
    if given.folder:
        compute(given.folder, given.draws, given.tasks, LENGTHS._replace(chains=given.chains))
        if given.tasks:
            return
        STORED.write_text(as_lines(stored(given.folder)))
    PAGE.write_text(page(json.loads(STORED.read_text())))


if __name__ == "__main__":
    main()
