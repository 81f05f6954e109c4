"""The head of a night's index page: the verdict, the time, the machine and the versions."""

from __future__ import annotations

from collections.abc import Sequence

from harness.results.store import Store
from plugins.verbs.regression.changes import Change
from plugins.verbs.regression.night import Night

SHOWN = 5
"""Regressions listed at the top of the page; the table below lists all."""


def verdict(last: Night | None, found: Sequence[Change], open_runs: int, *, accepted: bool) -> tuple[str, str]:
    """A summary of the night in a few words, and its tone."""
    worse = sum(change.is_regression for change in found)
    left = f"; {open_runs} run{'' if open_runs == 1 else 's'} not finished" if open_runs else ""
    if last is None:
        return f"the first night: nothing to compare with{left}", "bad" if left else "plain"
    if not worse:
        return f"no regression{left}", "bad" if left else "good"
    count = f"{worse} regression{'' if worse == 1 else 's'}"
    return (f"{count}, accepted{left}", "plain") if accepted else (f"{count}{left}", "bad")


def facts(store: Store, tonight: Night, last: Night | None) -> list[tuple[str, str]]:
    """(label, text), only from the store and the records, so that equal results give equal pages."""
    statuses = [status for row in tonight.rows.values() for status in row.statuses.values()]
    counts = [f"{statuses.count(status):,} {status.replace('_', ' ')}" for status in sorted(set(statuses))]
    (times,) = store.rows("select strftime(max(finished), '%Y-%m-%d %H:%M') as latest from result")
    found = [
        ("runs", ", ".join(counts) or "none"),
        ("latest run finished", f"{times['latest']} UTC" if times["latest"] else ""),
        ("compared with the night of", _minute(last.recorded) if last else ""),
    ]
    machines = store.rows(
        "select distinct bench, python, torch, platform, cpu, cores, gpu from environment order by all"
    )
    found += [(label, _all([[row[label.lower()]] for row in machines])) for label in ("bench", "Python", "torch")]
    machine = [[row["cpu"], f"{row['cores']} cores", row["gpu"], row["platform"]] for row in machines]
    found.append(("machine", _all(machine)))
    code = store.rows("select distinct distribution, version, git_commit, dirty from plugin order by all")
    own = [[c["distribution"], c["version"], (c["git_commit"] or "")[:10] or None, _dirty(c["dirty"])] for c in code]
    found.append(("code", _all(own)))
    return [(label, text) for label, text in found if text]


def _all(rows: Sequence[Sequence[object]]) -> str:
    """The parts of each row joined, and the rows joined, without duplicates."""
    texts = [", ".join(str(part) for part in row if part is not None) for row in rows]
    return "; ".join(dict.fromkeys(text for text in texts if text))


def _dirty(dirty: bool | None) -> str | None:
    return "with uncommitted changes" if dirty else None


def _minute(time: str) -> str:
    return f"{time[:16].replace('T', ' ')} UTC"
