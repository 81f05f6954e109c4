"""The results behind REPRODUCTION.md, as Parquet that `bench reproduce --export` writes, and the page made of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from textwrap import fill

from harness.rendering import render
from harness.report import Request
from harness.scoring import reproduction
from harness.scoring.reproduction import REVERSED
from harness.store.published import Published
from reports.tables.reproduction import FINDINGS, ReproductionLedger, kind

FOLDER = Path(__file__).parent
BEGIN, END = "<!-- counts: python -m reports.published -->", "<!-- end of counts -->"
HEAD = """# Reproduction

What the two papers print, cell by cell, beside what the runs in [reports/published](reports/published) say; then the
papers' claims. `csgmcmc` is Zhang et al., "Cyclical Stochastic Gradient MCMC for Bayesian Deep Learning";
`adaptive-drift` is Kim, Song and Liang, "Stochastic gradient Langevin dynamics with adaptive drifts". The printed
values and claims, with what was corrected in them and why, stand in [plugins/papers](plugins/papers); the rules in
[RULES.md](RULES.md).

    bench reproduce csgmcmc --table 4              # run what a table needs, print its part of this page
    bench reproduce --export reports/published     # add the results to the published ones
    nox -s docs                                    # this page, from these files alone

"""


def counts(folder: Path, papers: list[Path]) -> str:
    """The ledger of the published results in two sentences, for the README."""
    found = reproduction(Published(folder, papers), Request())
    valued = [entry for entry in found.cells if entry.ours and entry.ours.estimate and entry.ours.estimate.by_seed]
    as_stated = [entry for entry in valued if entry.at_papers_settings]
    absent = [entry for entry in found.cells if entry not in valued]
    waiting = [entry for entry in absent if not entry.cell.obstacle]
    own = sum(bool(entry.cell.ours) for entry in waiting)
    matches = sum(entry.verdict == "match" for entry in as_stated)
    findings = Counter(kind(entry.finding, FINDINGS) for entry in found.claims)
    turned = sum(REVERSED in entry.finding for entry in found.claims)
    words = {name: f"{findings[name]} {_verb(name, findings[name])}" for name in FINDINGS if findings[name]}
    if turned:
        words["holds at our settings"] += f" ({turned} of them reversed elsewhere in a declared sweep)"
    cells = (
        f"Of the {len(found.cells)} printed cells {len(as_stated)} have a value of ours at the paper's settings, and "
        f"{matches} of them match; {len(valued) - len(as_stated)} have one at settings that are partly ours, which is "
        f"no match whatever it is; {len(absent) - len(waiting)} cannot be reproduced, and {len(waiting)} are not run, "
        f"of which {own} rest on choices of ours."
    )
    return fill(f"{cells} Of the {len(found.claims)} claims {', '.join(words.values())}.", 120)


def _verb(finding: str, number: int) -> str:
    """A finding as a verb: of one it holds, of several they hold."""
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
    """The README with these sentences between its two marks."""
    head, begin, rest = readme.partition(BEGIN)
    _, end, tail = rest.partition(END)
    return f"{head}{begin}\n{told}\n{end}{tail}" if begin and end else readme


def page(folder: Path, papers: list[Path]) -> str:
    """The ledger of the published results, as Markdown."""
    result = ReproductionLedger().build(Published(folder, papers), Request())
    return HEAD + render(result, "markdown")
