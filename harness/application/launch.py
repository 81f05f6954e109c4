"""Execute a plan, and check what a command asks for before it is planned."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from harness.application.application import Application
from harness.application.progress import Progress
from harness.contracts import user_files
from harness.engine.stepping.execution_mode import LARGE
from harness.results.environment import gpus
from harness.results.ledger.heartbeats import ranges
from harness.results.records import Status
from harness.results.spec import RunSpec, from_record
from harness.runs import local, plugin_metadata, uncompiled
from harness.runs.job import Job
from harness.runs.local import LaunchSummary
from harness.runs.plan import Planned
from harness.system.errors import UsageError
from harness.system.files import read_json
from harness.system.text import count

MAX_LINES = 10
"""Most lines about unfinished runs after a command was stopped."""


class Launcher(Protocol):
    """What brings the runs of a command with --launcher to other machines: all that the core knows of it.

    A feature offers it, with its settings, by the hook `bench_facts`.
    """

    @property
    def devices(self) -> Sequence[str]:
        """The devices, all of one kind, on which runs are executed side by side, as often as they are: cpu, cpu, ..."""

    def launch(self, jobs: Sequence[Job], progress: Progress) -> LaunchSummary:
        """Execute blocks of runs. Returns how they ended, or `detached` if the command does not wait for that.

        `progress` is entered while the command waits; `progress.listen` gets the workers' messages.
        """


def launcher_of(app: Application) -> Launcher | None:
    """Return the launcher that a command asks for; None if it uses worker processes of its own."""
    if app.launching is None:
        return None
    offered = app.registry.facts("launcher")
    if not offered:
        raise UsageError("--launcher: no plugin brings runs to other machines")
    launcher: Launcher = offered[0](app)
    return launcher


def execute(
    app: Application,
    planned: Sequence[Planned],
    places: Sequence[local.Place],
    *,
    retry: bool,
    long_is_fine: bool,
    timeout: float | None = None,
    draws: str = "some",
) -> LaunchSummary:
    """Launch the planned runs that are missing. Prints what was done before and how the runs ended.

    Runs that are to be compiled only because no setting says otherwise, and cannot be, are executed as plain ones.
    `timeout` is the time limit of a block of runs in seconds. `draws` says which draws are kept on disk.
    """
    launcher = launcher_of(app)
    before = _done_as_plain(app, planned, draws) if launcher else {}
    planned = [before.get(p.spec.key, p) for p in planned]
    missing = [p for p in planned if not (p.standing.done(draws) or (p.standing.failed and not retry))]
    if missing:  # after the plan, so that a refused command makes no folder
        app.ledger.prepare()
    _print_done_before(app, planned, missing, retry=retry)
    outcome = local.LaunchSummary()
    if missing and draws == "all":
        _print_size(app, missing)
    if missing:
        for file in dict.fromkeys(file for p in missing for file in p.spec.files()):
            user_files.keep(file, app.results / user_files.FOLDER)
        blocks = local.jobs(missing, app.results, app.plugins, app.registry.distributions, len(places))
        blocks = [replace(block, timeout=timeout, retry=retry, draws=draws) for block in blocks]
        why = {p.spec.key: p.missing for p in missing}
        blocks = [replace(block, why_plain=why[block.specs[0].key]) for block in blocks]
        progress = Progress(app, blocks, len(places))
        if launcher:
            outcome = launcher.launch(blocks, progress)
        else:
            try:
                with progress:
                    outcome = local.launch(blocks, places, progress.listen, long_is_fine=long_is_fine)
            except (KeyboardInterrupt, local.PreemptedError):
                _print_unfinished(app, missing)
                raise
    outcome.instead = before
    if outcome.detached:
        return outcome
    if instead := _plain(app, missing, outcome, elsewhere=launcher is not None):
        again = execute(
            app, [*instead.values()], places, retry=retry, long_is_fine=long_is_fine, timeout=timeout, draws=draws
        )
        outcome.statuses |= again.statuses
        outcome.failures += again.failures
        outcome.instead, outcome.detached = before | instead, again.detached
        missing = [p for p in missing if p.spec.key not in instead]
    if missing or not instead:
        app.say(f"results in {app.results}: {ended(missing, outcome.statuses)}")
    return outcome


def _plain(
    app: Application, missing: Sequence[Planned], outcome: LaunchSummary, *, elsewhere: bool
) -> dict[str, Planned]:
    """Return the plain runs for those that were not compiled, by the keys of these. The reasons are kept.

    `elsewhere` says that the workers were on other machines, whose compilers are not the one of this machine.
    """
    plain = {}
    for item in missing:
        if said := outcome.uncompiled.get(item.spec.key):
            lasting = said["scope"] == "step" or (said["scope"] == "compiler" and not elsewhere)
            uncompiled.keep(item.spec, said["reason"], lasting=lasting)
            spec = uncompiled.in_mode(item.spec, "plain")
            plain[item.spec.key] = replace(
                item, spec=spec, standing=app.ledger.standing(spec.key), missing=said["reason"]
            )
    return plain


def _done_as_plain(app: Application, planned: Sequence[Planned], draws: str) -> dict[str, Planned]:
    """Return the plain runs that were done for runs that other machines could not compile, by the keys of these."""
    plain = {}
    for item in planned:
        if not item.standing.cached and item.spec.execution.compile != "plain":
            spec = uncompiled.in_mode(item.spec, "plain")
            standing = app.ledger.standing(spec.key)
            stored = standing.done(draws) and standing.attempt and read_json(standing.attempt.path / "spec.json")
            if stored and uncompiled.asked_mode(from_record(stored)) is None:
                plain[item.spec.key] = replace(item, spec=spec, standing=standing)
    return plain


def _print_unfinished(app: Application, missing: Sequence[Planned]) -> None:
    """Print the step from which the same command resumes each unfinished run."""
    begun: dict[tuple[str, str, int, int], list[int]] = {}
    left = 0
    for spec in (p.spec for p in missing):
        standing = app.ledger.standing(spec.key)
        left += not (standing.cached or standing.failed)
        if standing.unfinished:
            step = standing.unfinished.last_step()
            begun.setdefault((spec.method, spec.task.name, step, spec.steps), []).append(spec.seed)
    anew = left - sum(map(len, begun.values()))
    for (method, task, step, steps), seeds in [*begun.items()][:MAX_LINES]:
        app.say(f"{method} on {task}, seed{'s' * (len(seeds) > 1)} {ranges(seeds)}: from step {step} of {steps}")
    more = [f"{len(begun) - MAX_LINES} more lines like these"] if len(begun) > MAX_LINES else []
    app.say("; ".join([*more, f"{count(left, 'run')} left, {anew} of them not started"]))


def _print_size(app: Application, missing: Sequence[Planned]) -> None:
    from harness.runs.resume import kept_bytes  # imports torch

    size = sum(kept_bytes(p.spec) for p in missing)
    app.say(f"all kept draws of {count(len(missing), 'run')}: {size / 2**20:,.0f} MiB on disk")


def devices_for(app: Application, text: str, tasks: Sequence[str] = ()) -> tuple[str, list[str]]:
    """Return the kind of device, which is part of the run key, and the devices.

    "auto" means every GPU if all tasks have at least `LARGE` parameters, else the CPU. With --launcher, the devices are
    those of the launcher.
    """
    if launcher := launcher_of(app):
        kind = launcher.devices[0].partition(":")[0]
        if text not in ("auto", "cpu", kind):
            raise UsageError(f"--devices {text!r}: the launcher chooses the devices; --set launcher.gpus=N")
        return kind, list(launcher.devices)
    if text != "auto":
        return _named_devices(text)
    devices = gpus()
    offers = (
        [app.registry.find("tasks", name.partition("@")[0]) for name in app.registry.tasks(tasks)] if devices else []
    )
    large = bool(offers) and all(
        plugin_metadata.task_facts(o, plugin_metadata.resolve(o, {})).dim >= LARGE for o in offers
    )
    return ("cuda", devices) if large else ("cpu", ["cpu"])


def _named_devices(text: str) -> tuple[str, list[str]]:
    devices = [word.strip() for word in text.split(",") if word.strip()]
    for word in devices:
        if not re.fullmatch("cpu|cuda(:[0-9]{0,4})?", word):
            raise UsageError(f"--devices {text!r}: {word!r} is neither cpu nor cuda:N")
    if not devices:
        raise UsageError("--devices is empty")
    kinds = {word.partition(":")[0] for word in devices}
    if len(kinds) > 1:
        raise UsageError(f"--devices {text!r}: CPU and GPU give different random numbers; choose one kind")
    named = Counter(word if word == "cpu" else f"cuda:{int(word[5:] or 0)}" for word in devices)
    if twice := next((device for device, times in named.items() if times > 1), None):
        of_cpu = "; --workers sets the number of its processes" if twice == "cpu" else ""
        raise UsageError(f"--devices {text!r:.80}: name {twice} once{of_cpu}")
    return kinds.pop(), list(named)


def ended(missing: Sequence[Planned], statuses: Mapping[str, str]) -> str:
    """Return a text that says how the runs of this command ended, including those that did not finish."""
    words = [f"{number} {status}" for status, number in sorted(Counter(statuses.values()).items())]
    lost = len(missing) - len(statuses)
    return ", ".join([*words, *([f"{lost} not finished"] if lost > 0 else [])]) or "nothing to do"


def shortened(spec: RunSpec) -> str:
    """Return a text about the settings that a budget changes besides the length of a run, or "" if there are none."""
    source = f"protocol {spec.protocol}, {spec.budget}"
    changed = [f"{name}={origin.value}" for name, origin in spec.origins.items() if origin.source == source]
    if not changed:
        return ""
    return f"{spec.task.name}@{spec.protocol}: the {spec.budget} budget is a short one, with {', '.join(changed)}"


def _print_done_before(
    app: Application, planned: Sequence[Planned], missing: Sequence[Planned], *, retry: bool
) -> None:
    done = sum(p.standing.cached for p in planned)
    again = sum(p.standing.cached for p in missing)
    failed = [p for p in planned if p.standing.failed]
    lost = sum(p.standing.status == Status.DIVERGED for p in planned)
    of_them = f" ({lost} diverged)" if lost else ""
    app.say(f"{count(len(planned), 'run')}: {done} done before{of_them}, {len(missing)} to do")
    if again:
        app.say(f"{count(again, 'finished run')} repeated, because not all draws were kept")
    names = {p.missing: f"{p.spec.method} on {p.spec.task.name}" for p in reversed(missing) if p.missing}
    for reason, name in reversed(names.items()):
        app.say(f"warning: {name} is not compiled and takes more time: {reason}")
    for line in dict.fromkeys(shortened(p.spec) for p in missing):
        if line:
            app.say(line)
    damaged = [p for p in planned if p.standing.status == Status.DAMAGED]
    for spec, standing in ((p.spec, p.standing) for p in [*damaged, *([] if retry else failed)]):
        app.say(f"{spec.method} on {spec.task.name}, seed {spec.seed}: {standing.reason_to_repeat}")
