"""What the papers set and report, as data: one TOML file a paper, and perhaps a second one of settings.

    [paper]            id, title, citation, versions; of a second file the id alone
    [[settings]]       method, task, protocol, and where the method does not imply it the schedule; summary
    [settings.values]  "sampler.*", "schedule.*", "task.*", "run.*" = { value, provenance, source }; where it is lost
                       perhaps `swept`, a list of values, this one among them, that `bench reproduce` tries too: every
                       combination, or with `sweep = "each alone"` beside `summary` one setting after the other
    [[choices]]        what else the runs of a protocol rest on: task, protocol, and `values`, each of
                       { name, value, provenance, source }; with `method` they are of that method alone
    [[reported]]       a printed cell, or `cells = [{ ... }, ...]`, each with what the table around it says of all:
        table, row, column      as printed; a table's name is what `bench reproduce --table` takes
        method, task, protocol, chains, metric, direction   what it is of; left out where that cannot be told
        value, error, error_kind, n    error_kind: sd, se or unknown; n: repetitions
        printed_as, correction, evidence    where a label is wrong
        uncertain               why it is not certain what was printed: the verdict is "inconclusive"
        obstacle                why it cannot be reproduced: the verdict is "not reproducible as published"
        needs                   what a run needs beyond a CPU: a GPU, data
        cause                   why ours differs; shown, never worked out. It has runs or a report behind it,
                                `cause_by`, or says that it is a conjecture
        cause_by                [{ task, methods, metric }, ...], published runs, or [{ report }]
        notes                   anything else, such as versions of the text that differ
    [[claim]]          a claim, or `claims = [{ ... }, ...]` in the same way:
        table, statement        the claims of one table are the family that Holm adjusts over
        kind                    ordering (the default), equality, share, analysis
        better, worse, task, protocol, chains, metric, direction    the two sides; worse_protocol and worse_chains where
                                those of `worse` are others; no metric where no task measures it
        margin                  of an equality, as a share of the larger; of a share, as it is
        analysis, finding, evidence    of an exact analysis: the report that makes it, what it finds and by what
        beside                  metrics that are shown beside the one that is tested
        share, trials           of a share: what was printed, 4 of 5
        obstacle, needs, cause, cause_by, notes    as above

In [[settings]] and [[choices]], method, task and protocol are each a name or a list of names: the table is of every
combination of them.

Provenance: "paper", "code" (the authors'), "inferred" (follows from either), "ours" (not to be had from either).
What a paper does not state is ours wherever it stands, in a setting or in [[choices]]: a cell whose runs rest on it is
inconclusive, and a claim holds or fails "at our settings". `method` and `chains` of a reported cell say what it is of,
corrected; `row` and `printed_as` what is printed. A cell or a claim may name a task, protocol, method or metric that is
not installed: then it is not run, and the ledger says so.
"""

from __future__ import annotations

from pathlib import Path

from harness import hook


@hook
def bench_papers() -> list[Path]:
    """The papers of this package."""
    return sorted(Path(__file__).parent.glob("*.toml"))
