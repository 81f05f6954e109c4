"""The command that repeats a run."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from harness.reporting.scoring.groups import CHANGED
from harness.results.spec import TUNED


def run_command(row: Mapping[str, Any], seeds: Iterable[int], *more: str) -> str:
    """Return the `bench run` command for a row of the view `run_status`, with these seeds and the words `more`.

    The command names the run's study and the settings that the user gave. All other settings are the defaults of the
    installed code.
    """
    origins = json.loads(row["origins"])
    words = ["--sampler", row["method"], "--schedule", row["schedule"], "--task", f"{row['task']}@{row['protocol']}"]
    words += ["--budget", row["budget"], "--chains", str(row["chains"]), "--seeds", ",".join(map(str, seeds)), *more]
    study, given = asked(origins)
    words += ["--settings", study] if study else []
    words += ["--set", *(f"{name}={value}" for name, value in given.items())] if given else []
    return f"bench run {shlex.join(words)}"


def asked(origins: Mapping[str, Mapping[str, Any]]) -> tuple[str, dict[str, str]]:
    """Return the study ("" for none) and the settings, as texts, that a command has to name.

    `origins` has the origin of each setting.
    """
    tuned = [str(origin["source"]) for origin in origins.values() if origin["provenance"] == TUNED]
    study = next((match[1] for source in tuned if (match := re.match(r"study (\S+): ", source))), "")
    given = {name: _argument(o["value"]) for name, o in origins.items() if o["provenance"] in CHANGED}
    return study, given


def _argument(value: Any) -> str:
    return {True: "true", False: "false", None: "none"}[value] if value is None or type(value) is bool else f"{value}"
