"""The linear regressions of posteriordb as data: y ~ N(X b, sigma^2), by the name of the model.

Read before any import of NumPy: `bench ls` lists what is here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Prior(NamedTuple):
    """A normal prior, or Student's t with `nu` degrees of freedom; numbers, or their names in the data."""

    location: float | str
    scale: float | str
    nu: float = math.inf


class Design(NamedTuple):
    """A regression; a prior that is not stated is flat, on sigma > 0 for sigma.

    data          posteriordb's names of the data sets that it is a model of
    summary       what is regressed on what
    response      y, and
    columns       the columns of X: SQL expressions of the vectors of the data; column j of a matrix X is Xj
    coefficients  the shapes of the parameters in the order of the columns, by name: beta unless stated
    """

    data: Sequence[str]
    summary: str
    response: str
    columns: Sequence[str]
    priors: Mapping[str, Prior] = {}
    coefficients: Mapping[str, Any] | None = None

    def shapes(self) -> Mapping[str, Any]:
        """Return the shapes of the coefficients by name."""
        return self.coefficients or {"beta": len(self.columns)}


def centred(x: str) -> str:
    """Return x minus its mean."""
    return f"({x} - AVG({x}))"


def standardised(x: str, sds: float = 1) -> str:
    """Return x minus its mean, divided by `sds` standard deviations."""
    return f"({centred(x)} / ({sds} * STDDEV({x})))"


def interaction(a: str, b: str) -> list[str]:
    """Return the columns 1, a, b and a b."""
    return ["1", a, b, f"{a} * {b}"]


def _kidiq(by: str, *columns: str) -> Design:
    prior = {"sigma": Prior(0, 2.5, nu=1)}
    return Design(["kidiq"], f"test scores of children by {by}", "kid_score", columns, prior)


def _working(by: str, *columns: str) -> Design:
    return Design(["kidiq_with_mom_work"], f"test scores of children by {by}", "kid_score", columns)


def _earnings(summary: str, response: str, *columns: str) -> Design:
    return Design(["earnings"], summary, response, columns)


def _mesquite(by: str, *columns: str, response: str = "LN(weight)") -> Design:
    return Design(["mesquite"], f"weight of mesquite bushes by {by}", response, columns)


VOLUME, AREA, SHAPE = "LN(diam1 * diam2 * canopy_height)", "LN(diam1 * diam2)", "LN(diam1 / diam2)"
SIZES = "diam1", "diam2", "canopy_height", "total_height", "density"
GROUP = '"group"'  # quoted, as it is a word of SQL
YEARS = 1972, 1976, 1980, 1984, 1988, 1992, 1996, 2000
AGES = "age_discrete = 2", "age_discrete = 3", "age_discrete = 4"

DESIGNS = {
    "kidscore_momhs": _kidiq("mother's schooling", "1", "mom_hs"),
    "kidscore_momiq": _kidiq("mother's IQ", "1", "mom_iq"),
    "kidscore_momhsiq": _kidiq("mother's schooling and IQ", "1", "mom_hs", "mom_iq"),
    "kidscore_interaction": _kidiq("mother's schooling and IQ, interacting", *interaction("mom_hs", "mom_iq")),
    "kidscore_interaction_c": _working(
        "mother's schooling and IQ, centred, interacting", *interaction(centred("mom_hs"), centred("mom_iq"))
    ),
    "kidscore_interaction_c2": _working(
        "mother's schooling - 1/2 and IQ - 100, interacting", *interaction("(mom_hs - 0.5)", "(mom_iq - 100)")
    ),
    "kidscore_interaction_z": _working(
        "mother's schooling and IQ, standardised, interacting",
        *interaction(standardised("mom_hs", 2), standardised("mom_iq", 2)),
    ),
    "kidscore_mom_work": _working("mother's work", "1", "mom_work = 2", "mom_work = 3", "mom_work = 4"),
    "earn_height": _earnings("earnings by height", "earn", "1", "height"),
    "log10earn_height": _earnings("log10 earnings by height", "LOG10(earn)", "1", "height"),
    "logearn_height": _earnings("log earnings by height", "LN(earn)", "1", "height"),
    "logearn_height_male": _earnings("log earnings by height and sex", "LN(earn)", "1", "height", "male"),
    "logearn_logheight_male": _earnings("log earnings by log height and sex", "LN(earn)", "1", "LN(height)", "male"),
    "logearn_interaction": _earnings(
        "log earnings by height and sex, interacting", "LN(earn)", *interaction("height", "male")
    ),
    "logearn_interaction_z": _earnings(
        "log earnings by standardised height and sex, interacting",
        "LN(earn)", *interaction(standardised("height"), "male"),
    ),
    "mesquite": _mesquite("their sizes", "1", *SIZES, GROUP, response="weight"),
    "logmesquite": _mesquite("log sizes", "1", *(f"LN({size})" for size in SIZES), GROUP),
    "logmesquite_logvolume": _mesquite("log volume", "1", VOLUME),
    "logmesquite_logva": _mesquite("log volume and area", "1", VOLUME, AREA, GROUP),
    "logmesquite_logvas": _mesquite(
        "log volume, area, shape, height and density",
        "1", VOLUME, AREA, SHAPE, "LN(total_height)", "LN(density)", GROUP,
    ),
    "logmesquite_logvash": _mesquite(
        "log volume, area, shape and height", "1", VOLUME, AREA, SHAPE, "LN(total_height)", GROUP
    ),
    "nes": Design(
        [f"nes{year}" for year in YEARS], "party identification by ideology, race, age, schooling, sex and income",
        "partyid7", ["1", "real_ideo", "race_adj", *AGES, "educ1", "gender", "income"],
    ),
    "diamonds": Design(
        ["diamonds"], "log prices of diamonds by 24 columns", "Y", [*(centred(f"X{j}") for j in range(2, 26)), "1"],
        {"b": Prior(0, 1), "Intercept": Prior(8, 10, nu=3), "sigma": Prior(0, 10, nu=3)}, {"b": 24, "Intercept": ()},
    ),
    "blr": Design(
        ["sblrc", "sblri"], "simulated responses by 5 columns", "y", [f"X{j}" for j in range(1, 6)],
        {"beta": Prior(0, 10), "sigma": Prior(0, 10)},
    ),
    "kilpisjarvi": Design(
        ["kilpisjarvi_mod"], "summer temperatures of Kilpisjarvi by year", "y", ["1", "x"],
        {"alpha": Prior("pmualpha", "psalpha"), "beta": Prior("pmubeta", "psbeta")}, {"alpha": (), "beta": ()},
    ),
}  # fmt: skip


def posteriors() -> dict[str, tuple[str, Design]]:
    """Return the posterior, DATA-MODEL, and the design by the name of the task.

    A task has the model's name, or that of the data where a model has several sets.
    """
    return {
        f"pdb-{data if len(design.data) > 1 else model}".replace("_", "-"): (f"{data}-{model}", design)
        for model, design in DESIGNS.items()
        for data in design.data
    }


def class_name(task: str) -> str:
    """Return the name of the class of a task: KidscoreMomhs of pdb-kidscore-momhs."""
    return "".join(word.capitalize() for word in task.split("-")[1:])
