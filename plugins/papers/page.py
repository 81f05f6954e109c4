"""Writes docs/reproduction.md, the pages beside it and the counts in README.md: `python -m plugins.papers.page`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from textwrap import fill

from harness import Result
from harness.reports import Request, Table, render, write_set
from plugins.papers.ledger import HELD, NOT_RUN, REVERSED, reproduction
from plugins.papers.report import CELL_VERDICTS, FINDINGS, ReproductionLedger, kind
from plugins.papers.reported import UNREPRODUCIBLE
from plugins.sharing.published import Published

FOLDER = Path(__file__).parents[2] / "reports" / "published"
"""The published results, as Parquet from `bench reproduce --export`."""
BEGIN, END = "<!-- counts: python -m plugins.papers.page -->", "<!-- end of counts -->"
HEAD = """# Reproduction

These pages compare every number that the two papers behind this tool print with the runs in
[reports/published](../reports/published), and then list the claims. `csgmcmc` is Zhang et al., "Cyclical
Stochastic Gradient MCMC for Bayesian Deep Learning"; `adaptive-drift` is Kim, Song and Liang, "Stochastic gradient
Langevin dynamics with adaptive drifts". Two more papers are included as far as a CPU can run them: `bde` is the UCI
table of the paper of scikit-learn-contrib/bde; `smile` is the analytic suite in the code of Sommer et al., "Can
Microcanonical Langevin Dynamics Leverage Mini-Batch Gradient Noise?", whose text was not read: its claims are
hypotheses of ours. The printed values and claims, with our corrections and the reasons for them, are in
[plugins/papers](../plugins/papers); [RULES.md](../RULES.md) has the rules for verdicts.

    bench reproduce csgmcmc --table 4              # run what a table needs, print its part of these pages
    bench reproduce --export reports/published     # add the results to the published ones
    nox -s docs                                    # write these pages from the published results

Every cell and claim: {links}.

"""
OTHERS = "other-runs"


def counts(folder: Path) -> str:
    """Return a summary of the ledger of the published results in a few sentences, for the README."""
    ledger = reproduction(Published(folder), Request())
    verdicts = Counter(kind(entry.verdict, CELL_VERDICTS) for entry in ledger.cells)
    as_stated = sum(entry.at_papers_settings and not entry.cell.obstacle for entry in ledger.cells)
    unstated = sum(bool(entry.cell.ours) for entry in ledger.cells if entry.verdict.startswith(NOT_RUN))
    findings = Counter(kind(entry.finding, FINDINGS) for entry in ledger.claims)
    turned = sum(REVERSED in entry.finding for entry in ledger.claims)
    held = sum(HELD in entry.finding for entry in ledger.claims)
    exact = sum(entry.finding == "holds" and entry.claim.exact is not None for entry in ledger.claims)
    words = {name: f"{findings[name]} {_verb(name, findings[name])}" for name in FINDINGS if findings[name]}
    if exact:
        words["holds"] += f" ({exact} of them by an exact computation on one Gaussian)"
    if turned:
        words["holds at our settings"] += f" ({turned} of them reversed elsewhere in a declared sweep)"
    if held:
        words["fails at our settings"] += f" ({held} of them {_verb('holds', held)} elsewhere in a declared sweep)"
    cells = (
        f"Of the {len(ledger.cells)} printed cells {as_stated} have a value of ours at the paper's settings: "
        f"{verdicts['match']} match and {verdicts['mismatch']} do not. {verdicts['inconclusive']} are inconclusive, "
        f"because we chose a setting or a label or made too few runs; {verdicts[UNREPRODUCIBLE]} are not reproducible "
        f"as published; {verdicts[NOT_RUN]} are not run, and {unstated} of these would at best be inconclusive."
    )
    return fill(f"{cells} Of the {len(ledger.claims)} claims {', '.join(words.values())}.", 120)


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
    summary, *tables = ReproductionLedger().build(Published(folder), Request()).tables
    parts: dict[str, list[Table | str]] = {}
    for table in tables:
        paper, comma, _ = str(table.title).partition(", ")
        parts.setdefault(paper if comma else OTHERS, []).append(table)
    links = ", ".join(f"[{name}](reproduction/{name}.md)" for name in parts)
    files = {"docs/reproduction.md": HEAD.format(links=links) + render(Result([summary]), "markdown")}
    for name, part in parts.items():
        head = f"# Reproduction: {name}\n\nThe rules are on [the page of the summary](../reproduction.md).\n\n"
        files[f"docs/reproduction/{name}.md"] = head + render(Result(part), "markdown")
    return files


if __name__ == "__main__":
    readme = Path("README.md").read_text(encoding="utf-8")
    files = {**pages(FOLDER), "README.md": with_counts(readme, counts(FOLDER))}
    write_set(Path(), {name: text.encode() for name, text in files.items()})
