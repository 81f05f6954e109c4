"""The results behind REPRODUCTION.md, as Parquet that `bench reproduce --export` writes, and the page made of them."""

from __future__ import annotations

from pathlib import Path

from harness.rendering import render
from harness.report import Request
from harness.store.published import Published
from reports.tables.reproduction import ReproductionLedger

FOLDER = Path(__file__).parent
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


def page(folder: Path, papers: list[Path]) -> str:
    """The ledger of the published results, as Markdown."""
    result = ReproductionLedger().build(Published(folder, papers), Request())
    return HEAD + render(result, "markdown")
