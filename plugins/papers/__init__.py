"""What the papers set and report, as data: one TOML file a paper.

    [paper]            id, title, citation, versions
    [[settings]]       method, task, protocol, and where the method does not imply it the schedule; summary
    [settings.values]  "sampler.*", "schedule.*", "task.*", "run.*" = { value, provenance, source }
    [[reported]]       a printed cell: table, row, column, method, task, protocol, chains, metric, value, error,
                       error_kind, n, notes; where a label is wrong, printed_as, correction and evidence too

Provenance: "paper", "code" (the authors'), "inferred" (follows from either), "ours" (not to be had from either).
`method` and `chains` of a reported cell say what it is of, corrected; `row` and `printed_as` what is printed.
"""

from __future__ import annotations

from pathlib import Path

from harness import hook


@hook
def bench_papers() -> list[Path]:
    """The papers of this package."""
    return sorted(Path(__file__).parent.glob("*.toml"))
