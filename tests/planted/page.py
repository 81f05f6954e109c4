"""Writes docs/planted-bugs.md: `PYTHONPATH=tests python -m planted.page`. A test holds it equal to the table."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from planted.table import BUGS, KINDS

PAGE = Path(__file__).parents[2] / "docs" / "planted-bugs.md"

HEAD = """# Planted bugs

The tests contain right samplers with one bug each, and hold `bench check` to finding them (`tests/planted/`). A bug is
listed with the law that finds it, the cheapest where there are several. This page is generated from that table:
`PYTHONPATH=tests python -m planted.page`. Bugs that only the whole law finds are run by `nox -s statistical`, all
others by `nox -s tests`.
"""


def page():
    """The page, from the table of bugs."""
    found = [bug for bug in BUGS if bug.laws]
    changing = len(BUGS) - sum(bool(bug.unseen) for bug in BUGS)
    lines = [
        HEAD,
        f"{len(BUGS)} bugs are planted. {len(found)} of the {changing} that a law could find are found.",
        "",
        "| law | bugs that it finds |",
        "|---|---:|",
        *(f"| {law} | {n} |" for law, n in Counter(bug.laws[0] for bug in found).most_common()),
        "",
        "| kind | planted | found |",
        "|---|---:|---:|",
    ]
    for kind in KINDS:
        of_kind = [bug for bug in BUGS if bug.kind == kind]
        lines.append(f"| {kind} | {len(of_kind)} | {sum(bool(bug.laws) for bug in of_kind)} |")
    lines += ["", "## Found", "", "| kind | bug | what is wrong | found by |", "|---|---|---|---|"]
    for kind in KINDS:
        lines += [f"| {kind} | {bug.name} | {bug.what} | {bug.laws[0]} |" for bug in found if bug.kind == kind]
    if any(bug.awaits for bug in BUGS):
        lines += ["", "## Not found yet", "", "| kind | bug | what is wrong | the law that should find it |"]
        lines += ["|---|---|---|---|"]
        lines += [f"| {bug.kind} | {bug.name} | {bug.what} | {bug.awaits} |" for bug in BUGS if bug.awaits]
    lines += ["", "## What no law can find", "", "| kind | bug | what is wrong | why, and what finds it |"]
    lines += ["|---|---|---|---|"]
    lines += [f"| {bug.kind} | {bug.name} | {bug.what} | {bug.unseen} |" for bug in BUGS if bug.unseen]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
