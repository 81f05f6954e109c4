"""The printed cells and claims: all of them, each whole, and some read again in the papers' own words."""

from collections import Counter

import pytest

from plugins.methods import bench_methods
from plugins.papers import bench_papers
from plugins.papers.files import read
from plugins.samplers import bench_samplers

FILES, NOTES = read(bench_papers())
CELLS = [{"paper": file.paper, **cell} for file in FILES for cell in file.cells]
CLAIMS = [{"paper": file.paper, **claim} for file in FILES for claim in file.claims]
METHODS = {info.name for info in [*bench_methods(), *bench_samplers()]}

# As the papers' texts print them: "SGDM 5.17 0.09 22.98 0.27", "Parallel SGLD | 5.49 | 7.38", "ASGLD 99.542 \pm 0.026".
PRINTED = {
    ("csgmcmc", "Table 1"): {
        "SGDM": [(5.17, 0.09), (22.98, 0.27)], "Snapshot-SGDM": [(4.39, 0.01), (20.81, 0.10)],
        "cSGLD": [(4.29, 0.06), (20.55, 0.06)], "SGHMC": [(4.93, 0.1), (22.60, 0.17)],
    },
    ("csgmcmc", "Table 2"): {
        "Decreasing+Parallel 100/400, SGHMC": [(4.52, None), (20.82, None)],
        "Cyclical+Parallel 200/800, SGLD": [(4.09, None), (19.37, None)],
    },
    ("csgmcmc", "Table 3"): {"Snapshot-SGDM": [(0.8941, None), (77.142, None), (93.344, None)]},
    ("csgmcmc", "Table 4"): {"SGLD": [(1.8, 0.13)], "cSGLD": [(6.7, 0.52)], "Parallel SGLD": [(18, 0.47)]},
    ("csgmcmc", "Figure 2"): {"SGLD": [(4, None)]},
    ("csgmcmc", "Figure 5"): {"SGLD": [(1, None)]},
    ("csgmcmc", "Table 5"): {"cSGHMC": [(4707, None), (2436, None), (5000, None)]},
    ("csgmcmc", "Table 6"): {"Parallel SGLD": [(5.49, None), (7.38, None), (6.03, None), (6.03, None)]},
    ("adaptive-drift", "Table 1"): {
        "pSGLD, theta1": [(1.27, None), (-19.77, None), (16.52, None), (5.14, None), (-9.08, None)],
        "MSGLD, theta2": [(9.99, None), (10.0, None), (9.99, None), (9.99, None), (9.99, None)],
    },
    ("adaptive-drift", "Table 2"): {"MSGLD": [(94.910, 0.105), (91.247, 0.141)]},
    ("adaptive-drift", "Table 3"): {"ASGLD": [(99.542, 0.026), (98.417, 0.044), (3.176, 0.155)]},
    ("adaptive-drift", "Table 4"): {
        "pSGLD": [(97.209, 0.465), (89.398, 0.379), (99.034, 0.101), (69.234, 0.162)],
        "MSGLD": [(99.702, 0.066), (93.512, 0.081), (96.801, 0.150), (73.670, 0.144)],
    },
}  # fmt: skip


def test_all_cells_of_the_papers_are_there():
    assert NOTES == []
    assert Counter((cell["paper"], cell["table"]) for cell in CELLS) == {
        ("csgmcmc", "Table 1"): 16, ("csgmcmc", "Table 2"): 16, ("csgmcmc", "Table 3"): 12, ("csgmcmc", "Table 4"): 4,
        ("csgmcmc", "Table 5"): 12, ("csgmcmc", "Table 6"): 8, ("csgmcmc", "Appendix J"): 4,
        ("csgmcmc", "Figure 2"): 2, ("csgmcmc", "Figure 5"): 1,
        ("adaptive-drift", "Table 1"): 50, ("adaptive-drift", "Table 2"): 10, ("adaptive-drift", "Table 3"): 9,
        ("adaptive-drift", "Table 4"): 28,
        ("bde", "Airfoil"): 18, ("bde", "Bikesharing"): 18,
    }  # fmt: skip
    assert sum(cell["outside"] is None for cell in CELLS) == 184
    assert Counter(cell["table"] for cell in CELLS if cell["outside"]) == {"Airfoil": 12, "Bikesharing": 12}


def test_all_claims_of_the_papers_are_there():
    assert Counter((claim["paper"], claim["table"]) for claim in CLAIMS) == {
        ("csgmcmc", "Table 1"): 16, ("csgmcmc", "Table 2"): 8, ("csgmcmc", "Table 3"): 3, ("csgmcmc", "Table 4"): 2,
        ("csgmcmc", "Table 5"): 6, ("csgmcmc", "Table 6"): 4, ("csgmcmc", "Figure 3"): 7, ("csgmcmc", "Figure 4"): 8,
        ("csgmcmc", "Appendix J"): 2, ("csgmcmc", "Theorem 1"): 4, ("csgmcmc", "Theorem 2"): 2,
        ("csgmcmc", "Figure 2"): 1, ("csgmcmc", "Figure 5"): 1, ("csgmcmc", "Figure 6"): 1, ("csgmcmc", "Figure 7"): 1,
        ("csgmcmc", "Appendix E"): 2, ("csgmcmc", "Appendix G"): 2,
        ("csgmcmc-slides", "Two-dimensional Gaussian"): 3, ("csgmcmc-slides", "Two modes"): 3,
        ("csgmcmc-slides", "Mixture in two dimensions"): 3,
        ("adaptive-drift", "Figure 2(b)"): 6, ("adaptive-drift", "Figure 3"): 8,
        ("adaptive-drift", "Figure 1"): 2, ("adaptive-drift", "Table 1"): 5, ("adaptive-drift", "Table 2"): 10,
        ("adaptive-drift", "Table 3"): 3, ("adaptive-drift", "Table 4"): 12,
        ("adaptive-drift", "Theorem 3.1"): 2, ("adaptive-drift", "Theorem 3.2"): 2,
        ("bde", "Airfoil"): 2, ("bde", "Bikesharing"): 2, ("smile", "Analytic Gaussian"): 14,
    }  # fmt: skip


@pytest.mark.parametrize("table", PRINTED, ids="-".join)
def test_rows_read_again_in_the_papers_are_the_same(table):
    for row, values in PRINTED[table].items():
        printed = [c for c in CELLS if (c["paper"], c["table"], c["row"]) == (*table, row)]
        assert [(cell["value"], cell["error"]) for cell in printed] == values


@pytest.mark.parametrize("cell", CELLS, ids=lambda c: "-".join(c[k] for k in ("table", "row", "column")))
def test_a_cell_is_whole(cell):
    assert cell["value"] is not None
    assert cell["method"] in METHODS or cell["outside"]
    assert cell["task"]
    assert cell["metric"]
    assert cell["direction"] in {"min", "max", "target"}
    assert cell["error_kind"] in {"sd", "se", "unknown"}
    assert cell["error"] is None or cell["n"] > 1
    assert (cell["protocol"] is None or cell["chains"] is None) <= bool(
        cell["obstacle"] or cell["needs"] or cell["outside"]
    )
    corrected = [cell[key] is not None for key in ("printed_as", "correction", "evidence")]
    assert all(corrected) or not any(corrected)


def test_no_place_is_printed_twice_and_no_run_stands_for_two_cells_but_those_of_three_tables():
    places = [tuple(c[key] for key in ("paper", "table", "row", "column")) for c in CELLS]
    assert len(places) == len(set(places))
    keys = ("method", "task", "protocol", "chains", "metric")
    runs = Counter(tuple(c[key] for key in keys) for c in CELLS if not c["obstacle"])
    assert {n for n in runs.values() if n > 1} == {2}
    # The cyclical single chains of Table 2 are printed in Table 1 too; Figures 2 and 5 have three rows of Table 4.
    assert sum(n == 2 for n in runs.values()) == 4 + 3


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda c: c["statement"])
def test_a_claim_can_be_tested_or_says_why_not(claim):
    assert claim["kind"] in {None, "equality", "share", "ease", "analysis"}
    assert claim["statement"]
    assert {claim["better"], claim["worse"]} <= METHODS | {None}
    testable = claim["metric"] and claim["task"] and claim["protocol"] and claim["chains"] and claim["better"]
    if claim["kind"] == "share":
        assert testable
        assert 0 <= claim["share"] <= claim["trials"]
    elif claim["kind"] == "equality":
        assert testable
        assert claim["worse"]
        assert 0 < claim["margin"] < 1
    elif claim["kind"] == "analysis":
        assert claim.keys() >= {"analysis", "finding", "evidence"}
    elif testable and claim["worse"]:
        assert claim["direction"] in {"min", "max"}
    else:
        assert claim["needs"] or claim["obstacle"]


def test_orderings_are_those_that_the_tables_print():
    """Each ordering of two cells holds between the printed numbers; a claim the wrong way round would not."""
    values = {
        tuple(c[k] for k in ("paper", "table", "task", "metric", "method", "protocol", "chains")): c for c in CELLS
    }
    compared = 0
    for claim in CLAIMS:
        if claim["kind"] is not None or claim["worse"] is None:
            continue
        head = tuple(claim[k] for k in ("paper", "table", "task", "metric"))
        better = values.get((*head, claim["better"], claim["protocol"], claim["chains"]))
        protocol = claim["worse_protocol"] or claim["protocol"]
        worse = values.get((*head, claim["worse"], protocol, claim["worse_chains"] or claim["chains"]))
        if better is None or worse is None or better["obstacle"]:
            continue
        sign = -1 if claim["direction"] == "min" else 1
        assert sign * (better["value"] - worse["value"]) > 0, claim["statement"]
        compared += 1
    assert compared == 16 + 8 + 3 + 2 + 5 + 8 + 3 + 12 + 4
