"""The launcher that a command asks for, and the jobs that were submitted from its results folder."""

from __future__ import annotations

import functools
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import Bench, PluginError, UsageError
from harness.runs import plugin_metadata
from harness.runs.plan import parse_settings
from harness.system.files import user_path
from harness.system.text import count
from plugins.clusters.launcher import Launcher

if TYPE_CHECKING:
    from harness.application.progress import Progress
    from harness.runs.job import Job
    from harness.runs.local import LaunchSummary

MOST_NAMES = 10
"""Most names of jobs in the message about those that were submitted."""


@dataclass(frozen=True)
class Launching:
    """The launcher of a command, by its name and with its settings; see `harness.application.launcher.Launcher`."""

    bench: Bench
    name: str
    launcher: Launcher

    @property
    def device(self) -> str:
        """The kind of device on which runs are executed: "cpu" or "cuda"."""
        return self.launcher.device

    @property
    def devices(self) -> list[str]:
        """The devices of a job."""
        return self.launcher.devices

    def launch(self, blocks: Sequence[Job], progress: Progress) -> LaunchSummary:
        """Submit the runs that are not under way, and wait for all of them unless the command has --detach."""
        from harness.runs.local import LaunchSummary
        from plugins.clusters import remote

        bench, how = self.bench, self.bench.launching
        found = remote.submit(self.name, self.launcher, blocks, bench.ledger, functools.partial(make, bench))
        if found:  # otherwise another command has finished the runs
            names = ", ".join([job.name for job in found[:MOST_NAMES]] + ["..."] * (len(found) > MOST_NAMES))
            bench.say(f"{count(len(found), f'{self.name} job')}: {names}")
        leave = (
            "the same command waits for the jobs, `bench status` shows them, "
            f"`bench cancel` ends them ({bench.results})"
        )
        if how and how.detach:
            bench.say(leave)
            return LaunchSummary(detached=True)
        keys = {spec.key for block in blocks for spec in block.specs}
        try:
            with progress:
                return remote.follow(found, bench.ledger, progress.listen, keys, blocks[0].draws)
        except KeyboardInterrupt:
            bench.say(leave)
            raise


def launching(bench: Bench) -> Launching:
    """Return the launcher that a command asks for by --launcher and --set launcher.NAME=VALUE."""
    how = bench.launching
    if how is None:
        raise UsageError("this command has no --launcher")
    name = how.launcher
    settings: dict[str, Any] = {}
    if name.endswith(".toml"):
        name, settings = _profile(user_path(name))
    given = parse_settings(how.settings, "--set launcher")
    return Launching(bench, name, make(bench, name, {**settings, **given}))


def make(bench: Bench, name: str, settings: Mapping[str, Any]) -> Launcher:
    """Make the launcher of that name with these settings. `UsageError` if a setting is wrong."""
    offer = bench.registry.find("launchers", name)
    launcher = plugin_metadata.instance(offer.target, plugin_metadata.resolve(offer, settings))
    if not isinstance(launcher, Launcher):
        raise PluginError(f"{offer.target} is not a plugins.clusters.Launcher")
    return launcher


def _profile(path: Path) -> tuple[str, dict[str, Any]]:
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"--launcher {path}: {error}") from error
    name = found.pop("launcher", None)
    if not isinstance(name, str) or any(isinstance(value, dict | list) for value in found.values()):
        raise UsageError(f'--launcher {path}: it must hold launcher = "NAME" and settings of that launcher, one a line')
    return name, found


def states(bench: Bench) -> tuple[list[dict[str, Any]], list[str]]:
    """Return a row for each submitted job, and the errors of the engines that cannot be asked.

    This does not take in what the agents sent.
    """
    from plugins.clusters import remote

    submitted = under_way(bench)
    known, problems = remote.ask(submitted)
    rows = []
    for job in submitted:
        log, state = remote.read_log(job), known.get(job.ident)
        ended = sum(kind == "finished" for kind, _ in log.get("messages", []))
        steps = [(p["position"], p["steps"], p["rate"]) for p in log.get("progress", {}).values()]
        left = [(total - done) / rate for done, total, rate in steps if rate and done < total]
        rows.append(
            {
                "job": job.name, "launcher": job.record["launcher"], "status": state.status if state else "unknown",
                "runs": len(job.keys), "ended": ended, "host": (state.where if state else "") or log.get("host"),
                "why": (state.why if state else "") or None, "seconds_left": max(left, default=None),
                "heard_age": max(0.0, time.time() - log["time"]) if log else None, "since": job.record["since"],
            }
        )  # fmt: skip
    return rows, problems


def under_way(bench: Bench) -> Sequence[Any]:
    """Return the submitted jobs of a results folder, as `plugins.clusters.remote.Submitted`."""
    if not (bench.results / "jobs").is_dir():
        return []
    from plugins.clusters import remote

    return remote.submitted(bench.ledger, functools.partial(make, bench))
