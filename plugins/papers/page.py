"""Writes docs/reproduction.md, the pages beside it and the counts in README.md: `python -m plugins.papers.page`."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill

from harness import Result, registry
from harness.reports import Column, Group, Request, Store, Table, number, render, with_interval, write_set
from harness.results import ENGINE
from harness.runs import plugin_metadata
from plugins.papers.claims import UNINFORMATIVE, Claim, Ours
from plugins.papers.ledger import NOT_RUN, CellEntry, ClaimEntry, Reproduction, reproduction
from plugins.papers.report import FINDINGS, ReproductionLedger
from plugins.papers.reported import UNREPRODUCIBLE, Reported
from plugins.sharing.published import Published

FOLDER = Path(__file__).parents[2] / "reports" / "published"
"""The published results, as Parquet from `bench reproduce --export`."""
BEGIN, END = "<!-- counts: python -m plugins.papers.page -->", "<!-- end of counts -->"
PAPERS = {
    "csgmcmc": 'Zhang et al., "Cyclical Stochastic Gradient MCMC for Bayesian Deep Learning"',
    "adaptive-drift": 'Kim, Song and Liang, "Stochastic gradient Langevin dynamics with adaptive drifts"',
    "bde": "the UCI table of the paper of scikit-learn-contrib/bde, as far as a CPU can run it",
    "smile": 'the analytic suite in the code of Sommer et al., "Can Microcanonical Langevin Dynamics Leverage '
    'Mini-Batch Gradient Noise?"; its text was not read, so its claims are hypotheses of ours',
    "csgmcmc-slides": 'the notes of slides on Zhang et al., "Cyclic SGMCMC and some implementations"',
    "other-runs": "declared sweeps, and runs at other budgets, which have no verdict",
    "by-table": "all counts by table, and what each verdict means",
    "runs": "the engine of each published run, what repeating it costs, and what a CPU could still run",
}
"""What each page beside the summary is about."""
HEAD = """# Reproduction: what holds of two papers

The two are csgmcmc and adaptive-drift. bde, smile and the slides are compared in part, and are included in the counts.

| every cell and claim | of | printed numbers | claims |
|---|---|---|---|
{pages}

{counts}
{engines}

{numbers}

{settled}

Why the others are open is said [by number](reproduction/by-table.md).

    bench reproduce csgmcmc --table 4              # run what a table needs, print its part of these pages
    bench reproduce --export reports/published     # add the results to the published ones
    nox -s docs                                    # write these pages from the published results

The printed values and claims, with our corrections and the reasons for them, are in
[plugins/papers](../plugins/papers); [RULES.md](../RULES.md) has the rules for verdicts.
"""
OTHERS = "other-runs"
DECIDED = {"match": "match", "mismatch": "do not match", "inconclusive": "inconclusive"}
"""The verdicts on printed numbers that were run, in words for several."""
DECIDING = ("holds", "holds at our settings", "fails", "fails at our settings", "undecided")
"""The findings of claims that were run and inform."""
OPEN = {
    "inconclusive": "run, with a setting or another choice of ours, or too few seeds",
    "vacuous": "vacuous: the methods that should succeed fail as well",
    UNINFORMATIVE: "not informative: the baseline has almost no effective sample size",
    "undecided": "undecided: our seeds show no clear difference",
}


def counts(folder: Path) -> str:
    """Return a summary of the ledger of the published results in a few sentences, for the README."""
    return _counts(reproduction(Published(folder), Request()))


def _counts(ledger: Reproduction) -> str:
    verdicts = Counter(entry.verdict for entry in ledger.cells)
    as_stated = sum(entry.at_papers_settings and not entry.cell.obstacle for entry in ledger.cells)
    relabelled = sum(entry.verdict == "match" and bool(entry.cell.correction) for entry in ledger.cells)
    reading = f" ({relabelled} of them with a label that we corrected)" if relabelled else ""
    unstated = sum(bool(entry.cell.ours) for entry in ledger.cells if entry.verdict == NOT_RUN)
    findings = Counter(entry.kind for entry in ledger.claims)
    swept = Counter(entry.in_sweep for entry in ledger.claims)
    turned, held = swept["reversed in its sweep"], swept["holds in its sweep"]
    exact = sum(entry.finding == "holds" and entry.claim.exact is not None for entry in ledger.claims)
    words = {name: f"{findings[name]} {_verb(name, findings[name])}" for name in FINDINGS if findings[name]}
    if exact:
        words["holds"] += f" ({exact} of them by an exact computation on a Gaussian)"
    if turned:
        words["holds at our settings"] += f" ({turned} of them reversed elsewhere in a declared sweep)"
    if held:
        words["fails at our settings"] += f" ({held} of them {_verb('holds', held)} elsewhere in a declared sweep)"
    inconclusive = as_stated - verdicts["match"] - verdicts["mismatch"]
    cells = (
        f"Of the {len(ledger.cells)} printed numbers of samplers, {as_stated} could be run at the paper's own "
        f"settings: {verdicts['match']} match{reading}, {verdicts['mismatch']} do not and {inconclusive} are "
        f"inconclusive. In all {verdicts['inconclusive']} are inconclusive, mostly because we had to choose a setting "
        f"or made too few runs; {verdicts[UNREPRODUCIBLE]} are "
        f"not reproducible as published; {verdicts[NOT_RUN]} were not run, and {unstated} of these would at best be "
        "inconclusive."
    )
    others = f" {len(ledger.outside)} more numbers are of models that are not samplers of this tool."
    claims = f" Of the {len(ledger.claims)} claims {', '.join(words.values())}."
    return fill(f"{cells}{others if ledger.outside else ''}{claims}", 120)


def _verb(finding: str, number: int) -> str:
    """Return a finding as a verb: one claim "holds", several "hold"."""
    first, _, rest = finding.partition(" ")
    plural = {
        "holds": "hold",
        "fails": "fail",
        "undecided": "are undecided",
        "vacuous": "are vacuous",
        "not": "are not",
    }
    singular = {"undecided": "is undecided", "vacuous": "is vacuous", "not": "is not"}
    verb = singular.get(first, first) if number == 1 else plural[first]
    return f"{verb} {rest}".rstrip()


def with_counts(readme: str, told: str) -> str:
    """Return the README with these sentences between its two marks."""
    head, begin, rest = readme.partition(BEGIN)
    _, end, tail = rest.partition(END)
    return f"{head}{begin}\n{told}\n{end}{tail}" if begin and end else readme


def pages(folder: Path) -> dict[str, str]:
    """Return the ledger of the published results as Markdown, by path: a summary, and the pages beside it."""
    published = Published(folder)
    summary, *tables = ReproductionLedger().build(published, Request()).tables
    parts: dict[str, list[Table | str]] = {}
    for table in tables:
        paper, comma, _ = str(table.title).partition(", ")
        parts.setdefault(paper if comma else OTHERS, []).append(table)
    parts["by-table"] = [summary]
    ledger = reproduction(published, Request())
    runs = published_runs(published, ledger)
    parts["runs"] = [_by_engine(runs), _to_run(ledger)]
    parts["by-table"].append(_open(ledger))
    rows = [
        f"| [{name}](reproduction/{name}.md) | {PAPERS.get(name, name)} | {' | '.join(_of_paper(ledger, name))} |"
        for name in parts
    ]
    front = {"numbers": _decided_numbers(ledger), "settled": _settled(ledger)}
    tables_of = {name: render(Result([table]), "markdown").strip() for name, table in front.items()}
    text = HEAD.format(counts=_counts(ledger), engines=_engines(runs), pages="\n".join(rows), **tables_of)
    files = {"docs/reproduction.md": text}
    for name, part in parts.items():
        head = f"# Reproduction: {name}\n\nThe rules are on [the page of the summary](../reproduction.md).\n\n"
        files[f"docs/reproduction/{name}.md"] = head + render(Result(part), "markdown")
    return files


@dataclass(frozen=True)
class PublishedRuns:
    """The published runs of a task and protocol at a budget, by the same engine, with the tables that use them.

    usual_seeds  those of a run of the protocol without --seeds
    """

    paper: str
    of: str
    budget: str
    engine: int
    tables: tuple[str, ...]
    runs: int
    core_hours: float
    seeds: tuple[int, ...]
    usual_seeds: tuple[int, ...]

    @property
    def command(self) -> str:
        """The command that runs them with the present engine."""
        budget = "" if self.budget == "paper" else f" --budget {self.budget}"
        first, last = self.seeds[0], self.seeds[-1]
        whole = last - first + 1 == len(self.seeds) > 1
        words = f"{first}-{last}" if whole else ",".join(map(str, self.seeds))
        seeds = "" if self.seeds == self.usual_seeds else f" --seeds {words}"
        return f"bench reproduce {_words(self.paper, *self.tables)}{budget}{seeds}"


def _words(paper: str, *tables: str) -> str:
    """Return the arguments of `bench reproduce` for some tables of a paper."""
    return " ".join([paper, *(f"--table {shlex.quote(table.removeprefix('Table '))}" for table in tables)])


def published_runs(store: Store, ledger: Reproduction) -> list[PublishedRuns]:
    """Return the runs behind the ledger, by paper, task, protocol, budget and engine."""
    query = """select run_key, engine, sum(seconds_setup + seconds_sampling + seconds_observing) / 3600 as hours
        from run join attempt using (run_key) group by all"""
    known = {row["run_key"]: (row["engine"], row["hours"]) for row in store.rows(query)}
    tables: dict[tuple[str, str, str, int], dict[str, None]] = {}
    runs: dict[tuple[str, str, str, int], dict[str, int]] = {}
    usual: dict[tuple[str, str, str, int], tuple[int, ...]] = {}
    for paper, table, ours in _used(ledger):
        for group in (ours.group, *ours.sweep):
            for run in group.runs:
                label = (paper, f"{group.task}@{group.protocol}", group.budget, known[run.key][0])
                tables.setdefault(label, {})[table] = None
                runs.setdefault(label, {})[run.key] = run.seed
                usual.setdefault(label, _usual_seeds(group))
    return [
        PublishedRuns(
            *label, tuple(tables[label]), len(of), sum(known[key][1] for key in of), tuple(sorted({*of.values()})),
            usual[label],
        )
        for label, of in sorted(runs.items())
    ]  # fmt: skip


def _usual_seeds(group: Group) -> tuple[int, ...]:
    """Return the seeds of a run of a group's protocol without --seeds."""
    protocols = plugin_metadata.protocols(registry().find("tasks", group.task))
    return next(protocol.seeds for protocol in protocols if protocol.name == group.protocol)


def _used(ledger: Reproduction) -> Iterator[tuple[str, str, Ours]]:
    """Yield the groups that each cell and claim uses, with its paper and table."""
    for cell in ledger.cells:
        for ours in (cell.ours, *cell.tried, *cell.others):
            if ours is not None:
                yield cell.cell.paper, cell.cell.table, ours
    for claim in ledger.claims:
        for ours in (*claim.ours, *claim.tried):
            if ours is not None:
                yield claim.claim.paper, claim.claim.table, ours


def _engines(runs: Sequence[PublishedRuns]) -> str:
    """Return a sentence that says how many of the published runs are of the present engine."""
    present, total = sum(some.runs for some in runs if some.engine == ENGINE), sum(some.runs for some in runs)
    if present == total:
        return f"All {total:,} runs behind this are of the present engine, {ENGINE}."
    cost = sum(some.core_hours for some in runs if some.engine != ENGINE)
    others = f"repeating the others takes about {cost:.1f} core hours"
    return fill(f"{present:,} of the {total:,} runs behind this are of the present engine, {ENGINE}; {others}.", 120)


def _by_engine(runs: Sequence[PublishedRuns]) -> Table:
    rows = [
        {
            "of": some.of, "budget": some.budget, "engine": some.engine,
            "present": "yes" if some.engine == ENGINE else "no",
            "runs": some.runs, "hours": some.core_hours, "used": f"{some.paper}, {', '.join(some.tables)}",
            "command": some.command,
        }
        for some in runs
    ]  # fmt: skip
    shape = [Column("of", "runs of"), Column("budget", "budget"), Column("engine", "engine", "right")]
    shape += [Column("present", "the present one"), Column("runs", "runs", "right")]
    shape += [Column("hours", "core hours", "right", ".2f"), Column("used", "used by"), Column("command", "command")]
    note = "core hours: the seconds of the runs, on one core each, of a machine that also did other work"
    return Table("Published runs by engine", shape, rows, [note])


def _to_run(ledger: Reproduction) -> Table:
    """Return the tables for which a CPU can run more, with the cost that their files state."""
    costs: dict[tuple[str, str], float] = {}
    needs: dict[tuple[str, str], dict[str, None]] = {}
    subjects: list[Reported | Claim] = [entry.cell for entry in ledger.cells]
    subjects += [entry.claim for entry in ledger.claims]
    for subject in subjects:
        if subject.core_hours:
            label = (subject.paper, subject.table)
            costs[label] = max(costs.get(label, 0.0), subject.core_hours)
            needs.setdefault(label, {})[subject.needs or f"more seeds: bench reproduce {_words(*label)}"] = None
    rows = [
        {"of": f"{paper}, {table}", "hours": hours, "needs": "; ".join(needs[paper, table])}
        for (paper, table), hours in costs.items()
    ]
    shape = [Column("of", "of"), Column("hours", "core hours", "right"), Column("needs", "needs")]
    return Table("What a CPU can still run", shape, rows)


def _of_paper(ledger: Reproduction, paper: str) -> tuple[str, str]:
    """Return how many printed numbers and claims of a paper have which verdict; "" for a page that is of no paper."""
    cells: Counter[str] = Counter(one.verdict for one in ledger.cells if one.cell.paper == paper)
    claims = Counter(one.kind for one in ledger.claims if one.claim.paper == paper)
    numbers = [f"{cells[verdict]} {words}" for verdict, words in DECIDED.items() if cells[verdict]]
    said = [f"{claims[kind]} {_verb(kind, claims[kind])}" for kind in FINDINGS if kind in DECIDING and claims[kind]]
    return (
        f"{cells.total()}: {', '.join(numbers)}" if numbers else str(cells.total() or ""),
        f"{claims.total()}: {', '.join(said)}" if said else str(claims.total() or ""),
    )


def _decided_numbers(ledger: Reproduction) -> Table:
    """Return the printed numbers that match or do not match; *read as* says what a wrong label was corrected to."""
    rows = [
        {"in": f"{one.cell.paper}, {one.cell.table}", "number": f"{one.cell.row}, {one.cell.column}",
         "read as": one.cell.correction or "", "printed": number(one.cell.value),
         "ours": with_interval(one.ours.estimate if one.ours else None), "verdict": one.verdict}
        for one in ledger.cells
        if one.verdict in {"match", "mismatch"}
    ]  # fmt: skip
    names = ("in", "number", "read as", "printed", "ours", "verdict")
    return Table("Printed numbers with a verdict", [Column(name, name) for name in names], rows)


def _settled(ledger: Reproduction) -> Table:
    """Return the claims that hold or fail at the papers' own settings, or by an exact computation."""
    claims: dict[tuple[str, str], list[str]] = {}
    for entry in sorted(ledger.claims, key=lambda entry: entry.finding != "holds"):
        if entry.finding in {"holds", "fails"} and not entry.at_ours:
            claims.setdefault((entry.text, f"{entry.claim.paper}, {entry.claim.table}"), []).append(
                entry.claim.statement
            )
    rows = [{"finding": finding, "in": of, "claims": "; ".join(said)} for (finding, of), said in claims.items()]
    title = "What holds and what fails at the papers' own settings"
    return Table(title, [Column(name, name) for name in ("finding", "in", "claims")], rows)


def _open(ledger: Reproduction) -> Table:
    """Return why the other printed numbers and claims are open, the most frequent reason first."""
    numbers = Counter(filter(None, map(_why_open, ledger.cells)))
    claims = Counter(filter(None, map(_why_open, ledger.claims)))
    rows = [{"why": why, "numbers": numbers[why], "claims": claims[why]} for why, _ in (numbers + claims).most_common()]
    shape = [Column("why", "why"), Column("numbers", "printed numbers", "right"), Column("claims", "claims", "right")]
    return Table("Why the others are open", shape, rows)


def _why_open(entry: CellEntry | ClaimEntry) -> str:
    """Return why a printed number or claim is neither confirmed nor refuted at the paper's settings, or ""."""
    verdict = entry.verdict if isinstance(entry, CellEntry) else entry.finding
    if verdict == NOT_RUN:
        hours = entry.cell.core_hours if isinstance(entry, CellEntry) else entry.claim.core_hours
        missing = "a CPU could, at the cost on the page of runs" if hours else entry.missing or "no runs yet"
        return f"{NOT_RUN}: {'needs a GPU' if 'GPU' in entry.missing else missing}"
    if verdict == UNREPRODUCIBLE and isinstance(entry, CellEntry):
        return f"{UNREPRODUCIBLE}: {entry.cell.obstacle}"
    ours = isinstance(entry, ClaimEntry) and entry.at_ours and verdict in {"holds", "fails"}
    return "run, with a setting or another choice of ours, or too few seeds" if ours else OPEN.get(verdict, "")


if __name__ == "__main__":
    readme = Path("README.md").read_text(encoding="utf-8")
    files = {**pages(FOLDER), "README.md": with_counts(readme, counts(FOLDER))}
    write_set(Path(), {name: text.encode() for name, text in files.items()})
