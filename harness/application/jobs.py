"""The launcher of a command, and the jobs that were submitted from its results folder."""

from __future__ import annotations

import functools
import time
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.application.application import Application
from harness.contracts.launcher import Launcher
from harness.results.ledger.overview import COLUMNS
from harness.runs import plugin_metadata
from harness.runs.plan import parse_settings
from harness.system.errors import PluginError, UsageError
from harness.system.files import user_path


def make(app: Application, name: str, settings: Mapping[str, Any]) -> Launcher:
    """Make the launcher of that name with these settings. `UsageError` if a setting is wrong."""
    offer = app.registry.find("launchers", name)
    made = plugin_metadata.instance(offer.target, plugin_metadata.resolve(offer, settings))
    if not isinstance(made, Launcher):
        raise PluginError(f"{offer.target} is not a harness.Launcher")
    return made


def chosen(app: Application) -> tuple[str, Launcher] | None:
    """Return the name of the launcher that this command asks for, and the launcher.

    None if the command uses worker processes of its own.
    """
    how = app.launching
    if how is None:
        return None
    name = how.launcher
    settings: dict[str, Any] = {}
    if name.endswith(".toml"):
        name, settings = _profile(user_path(name))
    return name, make(app, name, {**settings, **parse_settings(how.settings, "--set launcher")})


def _profile(path: Path) -> tuple[str, dict[str, Any]]:
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"--launcher {path}: {error}") from error
    name = found.pop("launcher", None)
    if not isinstance(name, str) or any(isinstance(value, dict | list) for value in found.values()):
        raise UsageError(f'--launcher {path}: it must hold launcher = "NAME" and settings of that launcher, one a line')
    return name, found


def states(app: Application) -> tuple[list[dict[str, Any]], list[str]]:
    """Return a row for each submitted job, and the errors of the engines that cannot be asked.

    This does not take in what the agents sent.
    """
    found = under_way(app)
    if not found:
        return [], []
    from harness.runs import remote

    known, problems = remote.ask(found)
    rows = []
    for job in found:
        log, state = remote.read_log(job), known.get(job.ident)
        ended = sum(kind == "finished" for kind, _ in log.get("messages", []))
        steps = [(p["position"], p["steps"], p["rate"]) for p in log.get("progress", {}).values()]
        left = [(total - done) / rate for done, total, rate in steps if rate and done < total]
        rows.append(
            dict.fromkeys(COLUMNS) | {
                "job": job.name, "launcher": job.record["launcher"], "status": state.status if state else "unknown",
                "runs": len(job.keys), "ended": ended, "host": (state.where if state else "") or log.get("host"),
                "why": (state.why if state else "") or None, "seconds_left": max(left, default=None),
                "heard_age": max(0.0, time.time() - log["time"]) if log else None, "since": job.record["since"],
            }
        )  # fmt: skip
    return rows, problems


def under_way(app: Application) -> Sequence[Any]:
    """Return the submitted jobs of a results folder, as `harness.runs.remote.Submitted`."""
    if not (app.results / "jobs").is_dir():
        return []
    from harness.runs import remote

    return remote.submitted(app.ledger, functools.partial(make, app))
