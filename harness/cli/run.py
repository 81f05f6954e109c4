"""`bench run`: do what is missing of the runs that a command names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

import typer

from harness.cli import context, options, rates
from harness.errors import UsageError


def run(
    sampler: options.Samplers,
    task: options.Tasks,
    seeds: options.Seeds = None,
    chains: options.Chains = None,
    budget: options.Budget = "paper",
    settings: options.Set = None,
    sweep: options.Sweep = None,
    schedule: options.ScheduleName = None,
    workers: Annotated[int | None, typer.Option(min=1, max=256, help="Worker processes; default: one a core.")] = None,
    devices: Annotated[str, typer.Option(help="cpu, or cuda:0,cuda:1,...")] = "cpu",
    retry: Annotated[bool, typer.Option("--retry", help="Run failed runs again.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Go on even if it takes over a day.")] = False,
    as_json: options.Json = False,
) -> int:
    """Run samplers on tasks. The same command again does only what is missing; more seeds run only the new ones."""
    from harness.execution import local
    from harness.execution.plan import plan
    from harness.ledger.ledger import Ledger

    here = context.current()
    asked = options.request(sampler, task, seeds, chains, budget, settings, sweep, schedule)
    kind, named = _devices(devices)
    asked = replace(asked, device=kind)
    places = local.slots(named, workers)
    ledger = Ledger(here.results)
    registry = context.plugins()
    planned = plan(registry, asked, ledger, rates.measured(ledger, places[0]))
    ledger.prepare()  # after the plan: what cannot be planned makes no folder
    missing = [p for p in planned if not p.standing.cached and (retry or not p.standing.failed)]
    _tell_what_is_there(planned, missing, retry=retry)
    outcome = local.Outcome()
    if missing:
        distributions = tuple(sorted({plugin.distribution for plugin in registry.plugins if plugin.packaged}))
        jobs = local.jobs(missing, here.results, here.plugins, distributions)
        from harness.cli.progress import Progress

        with Progress(jobs) as progress:
            outcome = local.launch(jobs, places, progress.listen, long_is_fine=yes)
    context.say(f"results in {here.results}: {_ended(missing, outcome.statuses)}")
    if as_json:
        context.print_json(_rows(planned, ledger))
    standings = [ledger.standing(p.spec.key) for p in planned]
    return outcome.exit_code or int(any(s.failed or s.status == "diverged" for s in standings))


def _devices(text: str) -> tuple[str, list[str]]:
    """The kind of device, which is part of a run's key, and the devices."""
    found = [word.strip() for word in text.split(",") if word.strip()]
    for word in found:
        kind, _, number = word.partition(":")
        if kind not in ("cpu", "cuda") or (number and not number.isdigit()) or (kind == "cpu" and number):
            raise UsageError(f"--devices {text!r}: {word!r} is neither cpu nor cuda:N")
    if not found:
        raise UsageError("--devices names nothing")
    kinds = {word.partition(":")[0] for word in found}
    if len(kinds) > 1:
        raise UsageError(f"--devices {text!r}: CPU and GPU give other random numbers, so a command takes one kind")
    return kinds.pop(), list(dict.fromkeys("cuda:0" if word == "cuda" else word for word in found))


def _tell_what_is_there(planned: Sequence[Any], missing: Sequence[Any], *, retry: bool) -> None:
    done = sum(p.standing.cached for p in planned)
    failed = [p for p in planned if p.standing.failed]
    lost = sum(p.standing.status == "diverged" for p in planned)
    of_them = f" ({lost} diverged)" if lost else ""
    context.say(f"{context.count(len(planned), 'run')}: {done} done before{of_them}, {len(missing)} to do")
    for item in [] if retry else failed:
        context.say(
            f"{item.spec.method} on {item.spec.task.name}, seed {item.spec.seed}: {item.standing.status} before "
            f"({item.standing.reason}); --retry runs it again"
        )


def _ended(missing: Sequence[Any], statuses: Mapping[str, str]) -> str:
    """How the runs of this command ended; those that no worker brought to an end are counted too."""
    words = [f"{number} {status}" for status, number in sorted(Counter(statuses.values()).items())]
    lost = len(missing) - len(statuses)
    return ", ".join([*words, *([f"{lost} not finished"] if lost > 0 else [])]) or "nothing to do"


def _rows(planned: Sequence[Any], ledger: Any) -> list[dict[str, Any]]:
    rows = []
    for item in planned:
        spec, standing = item.spec, ledger.standing(item.spec.key)
        rows.append(
            {
                "run_key": spec.key, "method": spec.method, "task": spec.task.name, "protocol": spec.protocol,
                "seed": spec.seed, "chains": spec.chains, "steps": spec.steps, "budget": spec.budget,
                "status": standing.status, "reason": standing.reason or None,
                "attempt": standing.attempt.id if standing.attempt else None,
            }
        )  # fmt: skip
    return rows
