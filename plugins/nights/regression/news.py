"""What of a night is new: findings are printed once, and again when they end."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from plugins.nights.regression.changes import WORSE, Change
from plugins.nights.regression.night import Night, Told
from plugins.nights.regression.tables import sentence, told

LASTING = (*WORSE, "unfinished", "better", "skipped")
"""The outcomes that hold until a row has its earlier numbers again or they are accepted; the others happen once."""
REFUTED = "refuted"
"""The outcome of a row whose code is declared equal to earlier code and gives other numbers."""


def news(
    known: Sequence[Told], tonight: Night, changed: Sequence[Change], refuted: Mapping[str, str], *, again: bool
) -> tuple[list[str], list[Told]]:
    """Return the lines to print, and the findings to record.

    `known` are the recorded findings, of tonight if it is recorded (`again`), and otherwise of the night before. If
    tonight is accepted, what is better or worse is no finding any more. `refuted` are reasons by row.
    """
    before = {finding[:3]: finding for finding in known}
    standing = [change for change in told(changed) if change.outcome in LASTING and not _accepted(change, tonight)]
    findings = {(c.row, c.metric, c.outcome): _finding(c) for c in standing}
    lines = []
    for change in told(changed):
        key = change.row, change.metric, change.outcome
        if key in findings or not again:
            known_already = key in before and before[key][3] == _finding(change)[3]
            lines += [] if known_already else [sentence(change)]
            if known_already and key in findings:
                findings[key] = before[key]
    compared = {(change.row, change.metric): change for change in changed}
    reference = tonight.compared_with()
    for key, finding in before.items():
        row, metric, outcome = key
        if outcome == REFUTED or key in findings:
            continue
        if (row, metric) in compared if metric else row in tonight.rows:
            if not tonight.accepted:
                change = compared.get((row, metric), Change(row, metric, ""))
                lines.append(sentence(change, ended=outcome))
        elif row in reference and not tonight.accepted:
            findings[key] = finding  # it cannot be compared tonight
    for row, reason in refuted.items():
        key = row, "", REFUTED
        lines += [] if key in before else [f"{row}: {reason}"]
        findings[key] = (*key, reason, None)
    return lines, [*findings.values()]


def _accepted(change: Change, tonight: Night) -> bool:
    return tonight.accepted and (change.is_regression or change.outcome == "better")


def _finding(change: Change) -> Told:
    """Return the record of a finding; other reasons of a regression, such as other seeds, make it another one."""
    effect = change.comparison.effect if change.comparison else None
    reason = change.reason if change.is_regression and not change.comparison else ""
    known = effect if effect is not None and math.isfinite(effect) else None
    return change.row, change.metric, change.outcome, reason, known


def by_row(rows: Collection[Mapping[str, str]]) -> dict[str, str]:
    """Return the first reason of each row."""
    return {row["row"]: row["reason"] for row in reversed([*rows])}
