"""BENCHMARKS.md and its figures from a record of measurements.

python tests/benchmarks/page.py      writes them anew from docs/benchmarks/measurements.json
"""

from __future__ import annotations

import json
import platform
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import chart
import networks
import samplers
from cases import GRAD, ONE
from explained import explained, least, profile_table
from overhead import FORMS
from setting import BATCH, FRICTION, LEAPFROG, STEP_SIZES
from tables import BLACKJAX, OURS, PLAIN, Table, commands, goals, grid, number, plural, spread

FOLDER = "docs/benchmarks"
BUSY = 1.05
MEASURED = ("mib", "mib_on_disk", "seconds")
BY_HAND = "torch (by hand)"

PAGE = """\
# Benchmarks

Written by `nox -s benchmarks`; every number of every round is in
[{folder}/measurements.json]({folder}/measurements.json).{quick}

{machine}

## Goals

Each ratio is taken round by round; the median is held against the goal, the range stands behind it.

{goals}

## How it is measured

- **Speed** is million chain-steps a second: one chain moved by one step, float64, every state kept. Medians of
  {rounds} rounds with their range. Each case has a process of its own; those of a group (one sampler, one number of
  chains) are ready together and measured in turn, A B A B, {seconds:g} s or one block each.
- **One core, one thread** for every library: the process is bound to a core. Seconds are those of the processor; the
  clock showed {waits} times as many{busy}.
- **Compilation** is the first call less a later one and stands apart. Ours starts from an empty cache.
- **The same target**: the 25-mode mixture without gradient noise (the harness's task with `gradient_noise = 0`), the
  analytic gradient where the library takes one, T = 1. h = {h_sgld:g} for SGLD and MSGLD, {h_sghmc:g} and friction
  {friction:g} for SGHMC, leapfrog steps of sqrt({h_hmc:g}) and {leapfrog} of them for HMC.
- **The right law**: in every process the variance within a mode must be that of the stationary law within 15 %
  (blr-german: the means within half a posterior sd), or the cell says so.
- **bench** is `Loop` as a worker drives it: noise from one generator a chain, checks, draws handed on as
  float32. An observer that does nothing stands in for the task's own, except in the rows *observed*.
- **blackjax** runs in `vmap` over the chains of a jitted `lax.scan` over the steps. *score* has the analytic gradient,
  *grad* jax.grad of the log density, as most users write it. *one position* makes all chains one position with one
  random key: faster, but the chains share a stream.
- **posteriors** has all chains in one batched parameter, which is faster than vmap over its update.
- **torch (by hand)** is the shortest loop over torch operations for this target alone.

## SGLD on the 25-mode mixture

{sgld}

{sgld_ratios}

![speed by number of chains]({folder}/throughput.svg)

## Loop overhead

Time of the harness's plain loop over that of a bare loop in the same process, block by block in turn; noise drawn ahead
in both. *same arithmetic* asks our task for its gradient and writes out our sampler's step: its draws are ours to the
bit. *by hand* is the shortest loop for this target alone, with a matrix product, whose bits depend on the number of
chains.

{overhead}

## SGHMC

A step is one gradient. blackjax and posteriors move by the old velocity, ours by the new one. blackjax is represented
by its integrator: `blackjax.sghmc` itself keeps one state in ten and draws a new momentum for each.

{sghmc}

{sghmc_ratios}

## MSGLD

No peer has it.

{msgld}

## HMC

A step is a proposal of {leapfrog} leapfrog steps and its Metropolis test. posteriors has none.

{hmc}

{hmc_ratios}

## SGLD on blr-german, minibatches of {batch}

1,000 rows, 25 parameters; every chain has minibatches of its own. Ours are stretches of a permutation, those of the
peers {batch} indices drawn with replacement, which costs less.

{logistic}

{samplers}
{networks}## Memory

The largest process of a whole `bench run --sampler sgld --task mixture25`, every state kept and observed; of those on
disk every so-many-th stays where they would take more than 64 MiB.

{memory}

## Whole commands

{commands}

## Where the time goes

{profile_table}

![share of the time by part]({folder}/profile.svg)

{explained}
"""


def write(record: Mapping[str, Any], root: Path) -> None:
    """The page, the figures and the numbers, below `root`."""
    folder = root / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "measurements.json").write_text(json.dumps(record, indent=1) + "\n")
    figures(record, folder)
    (root / "BENCHMARKS.md").write_text(text(record, apart(folder)))


def write_apart(part: ModuleType, record: Mapping[str, Any], root: Path) -> None:
    """The numbers of `samplers` or `networks`, and the page with them where the rest was measured before."""
    folder = root / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    (folder / part.FILE).write_text(json.dumps(record, indent=1) + "\n")
    if (folder / "measurements.json").exists():
        rest = json.loads((folder / "measurements.json").read_text())
        (root / "BENCHMARKS.md").write_text(text(rest, apart(folder)))


def apart(folder: Path) -> dict[str, str]:
    """The sections of the parts that are measured apart, by their place in the page; "" where they were not."""
    paths = {"samplers": (samplers, folder / samplers.FILE), "networks": (networks, folder / networks.FILE)}
    return {
        name: part.section(json.loads(path.read_text())) if path.exists() else ""
        for name, (part, path) in paths.items()
    }


def figures(record: Mapping[str, Any], folder: Path) -> None:
    """throughput and profile, SVG and PNG."""
    sgld = Table(record["results"], "sgld")
    names = [OURS, PLAIN, BLACKJAX, f"blackjax ({ONE})", f"blackjax ({GRAD})", BY_HAND, "posteriors"]
    rates = {name: {c: r for c in sgld.chains if (r := sgld.median(name, c))} for name in names}
    chart.throughput(
        {n: r for n, r in rates.items() if r}, record["limits"]["floor"]["rate"] / 1e6, folder / "throughput"
    )
    if record["profile"]:
        chart.profile(record["profile"], least(record), folder / "profile")


def text(record: Mapping[str, Any], sections: Mapping[str, str] | None = None) -> str:
    """The page, with the sections of what is measured apart."""
    results = record["results"]
    sgld, sghmc, hmc = (Table(results, method) for method in ("sgld", "sghmc", "hmc"))
    logistic = Table(results, "sgld", "blr-german")
    quick = "\n\n**A quick pass: these numbers are not for the record.**" if record["quick"] else ""
    overhead = [["", *(plural(row["chains"]) for row in record["overhead"])]]
    overhead += [[f"over {form}", *(spread(row.get(form, [])) for row in record["overhead"])] for form in FORMS]
    return PAGE.format(
        folder=FOLDER,
        quick=quick,
        machine=about(record),
        goals=goals(record),
        rounds=record["rounds"],
        **business(results),
        seconds=record["seconds"],
        h_sgld=STEP_SIZES["sgld"],
        h_sghmc=STEP_SIZES["sghmc"],
        h_hmc=STEP_SIZES["hmc"],
        friction=FRICTION,
        leapfrog=LEAPFROG,
        batch=BATCH,
        sgld=sgld.markdown(),
        sgld_ratios=sgld.ratio_markdown(OURS),
        overhead=grid(overhead),
        sghmc=sghmc.markdown(),
        sghmc_ratios=sghmc.ratio_markdown(OURS),
        msgld=Table(results, "msgld").markdown(),
        hmc=hmc.markdown(),
        hmc_ratios=hmc.ratio_markdown(OURS),
        **({"samplers": "", "networks": ""} | dict(sections or {})),
        logistic=f"Not measured: {record['lacking']}." if record["lacking"] else both(logistic),
        memory=memory_table(record["memory"]),
        commands=commands(record["commands"]) if record["commands"] else "Not measured.",
        profile_table=profile_table(record),
        explained=explained(record),
    )


def both(table: Table) -> str:
    """Speeds and ratios."""
    return f"{table.markdown()}\n\n{table.ratio_markdown(OURS)}"


def business(results: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """How much longer the clock ran than the processor: what other processes took."""
    waits = [wait for result in results for wait in result["waits"]]
    middle = statistics.median(waits)
    return {"waits": spread(waits), "busy": "; the machine was busy" if middle > BUSY else ""}


def about(record: Mapping[str, Any]) -> str:
    """The machine, the versions, how long it took."""
    here, versions = record["machine"], ", ".join(f"{name} {v}" for name, v in record["versions"].items())
    return (
        f"{here['cpu']}, {here['cores']} cores, {here['platform']}, Python {here['python']}; {versions}. "
        f"All of it took {record['minutes']:.0f} minutes."
    )


def memory_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Peak memory by mode."""
    lines = [["", "kept states", "peak, MiB", "draws on disk, MiB", "seconds"]]
    for row in rows:
        label, states = f"{row['mode']}, {plural(row['chains'])}", f"{row['states']:,}"
        measured = ["failed", row["problem"], ""] if "problem" in row else [number(row[name]) for name in MEASURED]
        lines.append([label, states, *measured])
    return grid(lines)


def machine() -> dict[str, Any]:
    """What machine this is, in the words of the harness."""
    from harness.results.environment import collect

    here = collect("cpu", ())
    return {name: here[name] for name in ("cpu", "cores", "platform")} | {"python": platform.python_version()}


if __name__ == "__main__":
    root = Path(__file__).parents[2]
    write(json.loads((root / FOLDER / "measurements.json").read_text()), root)
