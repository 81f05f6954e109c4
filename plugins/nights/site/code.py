"""The changes of code between two groups of runs that differ in nothing else."""

from __future__ import annotations

import functools
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import harness
from harness.contracts import HARNESS
from harness.reporting import is_hash
from harness.reports import Group

MOST_LINES = 400
"""Most lines of a diff on a page."""
FOLDERS = (
    "harness/contracts",
    "harness/engine",
    "plugins/samplers",
    "plugins/schedules",
    "plugins/methods.py",
    "tasks",
)
"""Code on which a run's numbers can depend."""


def versions(
    group: Group,
    others: Sequence[Group],
    runs: Mapping[str, Sequence[Mapping[str, Any]]],
    code: Mapping[str, Sequence[Mapping[str, Any]]],
) -> list[tuple[str, str]]:
    """Return (title, lines): the differences from the previous version's group, with commits and diff.

    The diff is included if the checkout has both commits.
    """

    def latest(of: Group) -> str:
        return max((str(run["finished"] or "") for run in runs.get(of.key, ())), default="")

    before = [other for other in others if (latest(other), other.key) < (latest(group), group.key)]
    if not before:
        return []
    last = max(before, key=lambda other: (latest(other), other.key))
    names = sorted({name for name in (*group.settings, *last.settings) if is_hash(name)})
    lines = [
        f"{name}: {str(last.settings.get(name))[:12]} -> {str(group.settings.get(name))[:12]}"
        for name in names
        if last.settings.get(name) != group.settings.get(name)
    ]
    a, b = (commit(runs.get(of.key, ()), code) for of in (last, group))
    return [(f"Code since row {last.key[:12]}", "\n".join([*lines, *difference(a, b)]))]


def commit(runs: Sequence[Mapping[str, Any]], code: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Return the harness's commit in the latest of these runs; a "+" at its end means uncommitted changes."""
    for run in sorted(runs, key=lambda run: str(run["finished"] or ""), reverse=True):
        for entry in code.get(run["attempt"], ()):
            if entry["distribution"] == HARNESS and re.fullmatch("[0-9a-f]{7,64}", entry["git_commit"] or ""):
                return f"{entry['git_commit']}{'+' if entry['dirty'] else ''}"
    return ""


def short(commit: str) -> str:
    """Return a commit as text: "1a2b3c4d5e, with uncommitted changes"."""
    return f"{commit[:10]}{', with uncommitted changes' if commit.endswith('+') else ''}"


@functools.cache
def difference(a: str, b: str) -> tuple[str, ...]:
    """Return the commits from a to b and the diff of the code in FOLDERS, if the installed checkout has both."""
    if not a or not b:
        return ("no commit is recorded",)
    if a == b:
        return (f"commit {short(a)}",)
    lines = [f"commit {short(a)} -> {short(b)}"]
    ends = f"{a.rstrip('+')}..{b.rstrip('+')}"
    log = _git("log", "--format=%h %s", "--max-count=20", ends, "--", *FOLDERS)
    found = _git("diff", "--no-color", "--no-ext-diff", ends, "--", *FOLDERS)
    if log is None or found is None:
        return (*lines, f"git diff {a[:10]} {b[:10]}    in a checkout that has both")
    shown = found.splitlines()
    more = [f"... {len(shown) - MOST_LINES} more lines: git diff {a[:10]} {b[:10]}"] if len(shown) > MOST_LINES else []
    return (*lines, *log.splitlines(), "", *shown[:MOST_LINES], *more)


def _git(*arguments: str) -> str | None:
    """Return the output of a git command in the harness's own checkout; None if there is no checkout or it fails."""
    root = Path(harness.__file__).resolve().parent.parent
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments],  # noqa: S607 - the user's own git
            capture_output=True,
            check=True,
            timeout=30,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode("utf-8", "replace")
