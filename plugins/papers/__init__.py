"""The settings, reported numbers and references of the papers, as data; docs/papers.md.

There is one TOML file per paper, and optionally one of settings:

    [paper]            id, title, citation, versions; in a second file only the id. `execution` lists settings of the
                       tasks that concern rounding and recording, which never count as choices of ours
    [[settings]]       method, task, protocol, and the schedule if the method does not imply it; summary
    [settings.values]  "sampler.*", "schedule.*", "task.*", "run.*" = { value, provenance, source }. If the value is
                       lost, there may be `swept`: a list of values, this one included, that `bench reproduce` also
                       tries. It tries every combination, or one setting after the other if `sweep = "each alone"`
                       stands beside `summary`
    [[choices]]        other choices on which the runs of a protocol depend: task, protocol, and `values`, each of
                       { name, value, provenance, source }; with `method` they apply to that method only
    [[reported]]       a printed cell, or `cells = [{ ... }, ...]`; the table around the cells has what they share:
        table, row, column      as printed; `bench reproduce --table` takes the name of a table
        method, task, protocol, chains, metric, direction   what the cell measures; left out if that is not known
        value, error, error_kind, n    error_kind: sd, se or unknown; n: repetitions
        printed_as, correction, evidence    if a label is wrong
        uncertain               why it is not certain what was printed: the verdict is "inconclusive"
        obstacle                why it cannot be reproduced: the verdict is "not reproducible as published"
        outside                 what the row is, if it is not a sampler: it is listed, never run, and not counted
        needs                   what a run needs beyond a CPU: a GPU, data
        core_hours              of one core, for the runs that are missing and that a CPU could do
        cause                   why ours differs; shown, never computed. Either runs or a report support it, named in
                                `cause_by`, or it says that it is a conjecture
        cause_by                [{ task, methods, metric }, ...], published runs, or [{ report }]
        notes                   anything else, such as versions of the text that differ
    [[claim]]          a claim, or `claims = [{ ... }, ...]` in the same way:
        table, statement        the claims of one table are the family for Holm's adjustment
        kind                    ordering (the default), equality, share, ease, analysis. ease: the metric is 1 or 0,
                                and `better` has a larger mean over the points of its declared sweep
        better, worse, task, protocol, chains, metric, direction    the two sides; worse_protocol and worse_chains if
                                those of `worse` are different; no metric if no task measures it
        measure                 how the metric measures what is claimed, where that is a choice of ours
        least_ess               the metric is an effective sample size; a baseline, `worse`, below this leaves it open
        margin                  for an equality, a share of the larger value; for a share, an absolute margin
        analysis, finding, evidence    for an exact analysis: the report that makes it, its finding and its evidence
        beside                  metrics that are shown beside the one that is tested
        share, trials           for a share: what was printed, such as 4 of 5
        obstacle, needs, core_hours, cause, cause_by, notes    as above

In [[settings]] and [[choices]], method, task and protocol are each a name or a list of names: the table applies to
every combination of them.

Provenance: "paper", "code" (the authors'), "inferred" (follows from either), "ours" (cannot be had from either).
A value that a paper does not state is ours, in a setting as well as in [[choices]]: a cell whose runs depend on it is
inconclusive, and a claim holds or fails "at our settings". `method` and `chains` of a reported cell say what it
measures, after corrections; `row` and `printed_as` say what is printed. A cell or a claim may name a task, protocol,
method or metric that is not installed: then it is not run, and the ledger says so.
"""

from __future__ import annotations

from pathlib import Path

from harness import Info, hook


@hook
def bench_papers() -> list[Path]:
    """Return the paths of the papers' files in this package."""
    return sorted(Path(__file__).parent.glob("*.toml"))


@hook
def bench_settings() -> list[Info]:
    """Return the settings of all plugins' papers."""
    return [Info("papers", "plugins.papers.files:stated", "the settings that papers state")]


@hook
def bench_facts() -> list[Info]:
    """Return the check of a paper's file, and the references of what comes with the project."""
    return [
        Info("paper", "plugins.papers.files:problems", "whether a paper's file can be read"),
        Info("reference", "plugins.papers.references:references"),
    ]


@hook
def bench_reports() -> list[Info]:
    """Return the report of this feature."""
    return [
        Info(
            "reproduction",
            "plugins.papers.report:ReproductionLedger",
            "the papers' cells and claims, beside ours",
            fill="bench reproduce csgmcmc --table 4",
        ),
    ]


@hook
def bench_verbs() -> list[Info]:
    """Return the verbs of this feature."""
    return [
        Info(
            "reproduce",
            "plugins.papers.reproduce:reproduce",
            "Run what the papers' tables need and compare with them.",
        ),
        Info("cite", "plugins.papers.cite:cite", "Print the BibTeX of the papers behind results or plugins."),
    ]
