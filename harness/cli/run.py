"""`bench run`: do what is missing of the runs that a command names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli import context, options
from harness.errors import UsageError

MEASURE_STEPS = 200


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
    places = local.slots(_devices(devices), workers)
    ledger = Ledger(here.results)
    registry = context.plugins()
    if not budget.startswith("seconds="):
        plan(registry, asked, ledger)  # what cannot be planned is refused before a folder is made
    ledger.prepare()
    planned = plan(registry, asked, ledger, _measure(ledger.root, places[0]))
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
    refused = sum(p.standing.failed for p in planned) if not retry else 0
    return outcome.exit_code or int(refused > 0)


def _devices(text: str) -> list[str]:
    found = [word.strip() for word in text.split(",") if word.strip()]
    for word in found:
        kind, _, number = word.partition(":")
        if kind not in ("cpu", "cuda") or (number and not number.isdigit()) or (kind == "cpu" and number):
            raise UsageError(f"--devices {text!r}: {word!r} is neither cpu nor cuda:N")
    if not found:
        raise UsageError("--devices names nothing")
    return list(dict.fromkeys("cuda:0" if word == "cuda" else word for word in found))


def _tell_what_is_there(planned: Sequence[Any], missing: Sequence[Any], *, retry: bool) -> None:
    done = sum(p.standing.cached for p in planned)
    failed = [p for p in planned if p.standing.failed]
    context.say(f"{context.count(len(planned), 'run')}: {done} done before, {len(missing)} to do")
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


def _measure(results: Path, place: tuple[str, str]) -> Any:
    """The rate of a pair in steps a second, measured once in a results folder and written down there."""
    from harness.execution import local
    from harness.execution.plan import Planned, make_spec
    from harness.ledger.files import read_json, write_json
    from harness.ledger.ledger import Standing

    def measure(pair: Any, settings: Any, how: Mapping[str, Any]) -> float:
        specs = [make_spec(pair, settings, MEASURE_STEPS, seed, how["chains"], "measured") for seed in how["seeds"]]
        path = results / "rates" / f"{specs[0].group}-{len(specs)}-{place[0].replace(':', '-')}.json"
        known = read_json(path)
        if known is None:
            here = context.current()
            planned = [Planned(spec, Standing("new"), 0.0, len(specs)) for spec in specs]
            context.say(f"measuring {specs[0].method} on {specs[0].task.name} over {MEASURE_STEPS} steps")
            known = {
                "steps_per_second": local.measure(
                    local.jobs(planned, results, here.plugins, ())[0], place, MEASURE_STEPS
                )
            }
            path.parent.mkdir(exist_ok=True)
            write_json(path, known)
        return float(known["steps_per_second"])

    return measure
