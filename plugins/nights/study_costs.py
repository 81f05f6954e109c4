"""What a part of the study costs, searches included: `python -m plugins.nights.study_costs RESULTS`.

Makes two runs of each pair in RESULTS, plans what the pair takes by `bench plan`, and writes the table of costs of
docs/study-design.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from harness import Bench, Result
from harness.reports import Column, Table, number, render, write_set
from harness.results import ONE_SETTING
from harness.runs import RunRequest
from plugins.nights.suite import find
from plugins.tuning.pair import PairTuning
from plugins.tuning.search import FINALISTS
from plugins.tuning.seeds import SearchSeeds
from reports.suite_pages import PARTS, records_of

SEEDS = SearchSeeds()
"""Those of the searches of the study."""
PAGE = Path("docs/study-design.md")
BEGIN, END = "<!-- costs: python -m plugins.nights.study_costs -->", "<!-- end of costs -->"
COLUMNS = (
    Column("part", "part"), Column("task", "task"), Column("budget", "budget"), Column("pairs", "methods", "right"),
    Column("tuning_runs", "runs of searches", "right", ","), Column("runs", "runs reported", "right", ","),
    Column("tuning", "minutes of searches", "right", number), Column("reported", "minutes reported", "right", number),
)  # fmt: skip


def rows(bench: Bench, part: str, known: set[tuple[str, str, str, str]]) -> Iterator[dict[str, Any]]:
    """Yield the cost of each task of a part, in minutes of one core, from two runs of each pair.

    Rows at the settings of another budget, or at those of authors, cost no search, and none costs one that is `known`,
    by sampler, task, budget and study, to which those of this part are added.
    """
    for entry in find(bench.registry, part).entries:
        searched = {(one["task"], one["budget"]) for one in (records_of(entry.study) if entry.study else ())}
        for task in entry.tasks:
            per_trial, final, count = SEEDS.per_trial, len(SEEDS.finalists), len(entry.seeds or [])
            asked: dict[str, Any] = {"chains": entry.chains, "study": ONE_SETTING}
            bench.run(list(entry.samplers), task, budget=entry.budget, seeds=range(2), **asked)
            tuned = entry.samplers if (task.partition("@")[0], entry.budget) in searched else ()
            new = [sampler for sampler in tuned if (sampler, task, entry.budget, entry.study) not in known]
            known.update((sampler, task, entry.budget, entry.study) for sampler in new)
            searches = {sampler: _trials(bench, sampler, task, entry) for sampler in new}
            alone = {
                sampler: {len(seeds): _seconds(bench, sampler, task, seeds, budget=entry.budget, **asked)
                          for seeds in (_new(per_trial), _new(final), entry.seeds or [])}
                for sampler in entry.samplers
            }  # fmt: skip
            yield {
                "part": part, "task": task, "budget": entry.budget, "pairs": len(entry.samplers),
                "tuning_runs": sum(per_trial * trials + FINALISTS * final for trials in searches.values()),
                "runs": count * len(entry.samplers),
                "tuning": sum(trials * alone[sampler][per_trial] + FINALISTS * alone[sampler][final]
                              for sampler, trials in searches.items()) / 60,
                "reported": sum(one[count] for one in alone.values()) / 60,
            }  # fmt: skip


def _new(count: int) -> range:
    """Return seeds without a run."""
    return range(100, 100 + count)


def _trials(bench: Bench, sampler: str, task: str, entry: RunRequest) -> int:
    """Return how many settings the search of a pair tries."""
    asked = RunRequest([sampler], [task], SEEDS.trials, entry.chains, entry.budget)
    return PairTuning(bench, asked, SEEDS).trials


def _seconds(bench: Bench, sampler: str, task: str, seeds: Sequence[int], **asked: Any) -> float:
    """Return the estimated seconds of runs that advance together; of those whose runs diverged, as sgld's."""
    seconds = bench.plan(sampler, task, seeds=seeds, **asked)["seconds"]
    if seconds.null_count():
        seconds = bench.plan("sgld", task, seeds=seeds, **asked)["seconds"]
    return float(seconds.sum())


def main(results: str) -> None:
    """Write the table of costs."""
    bench = Bench(results)
    known: set[tuple[str, str, str, str]] = set()
    costs = [row for part in PARTS for row in rows(bench, part, known)]
    sums = ("tuning_runs", "runs", "tuning", "reported")
    total = {"part": "all", "task": "", "budget": "", "pairs": sum(row["pairs"] for row in costs)}
    costs.append(total | {name: sum(row[name] for row in costs) for name in sums})
    head, begin, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, end, tail = rest.partition(END)
    table = render(Result([Table("", COLUMNS, costs)]), "markdown").strip()
    write_set(PAGE.parent, {PAGE.name: f"{head}{begin}\n{table}\n{end}{tail}".encode()})


if __name__ == "__main__":
    main(sys.argv[1])
