"""What docs/which-sampler.md recommends, and what it and the study's page say of bias and of longer runs."""

import itertools
import json
import re
from pathlib import Path

import pytest
from told import assert_told

from reports.suite_pages import records_of

DOCS = Path(__file__).parents[2] / "docs"
PARTS = {
    path.stem.removeprefix("study-"): json.loads(path.read_text(encoding="utf-8"))
    for path in sorted((DOCS / "field").glob("study-*.json"))
}
ROWS = [
    (part, one) for part, content in PARTS.items() for one in content["leaderboard"] if isinstance(one["mean"], float)
]
VALUE = {(part, one["task"], one["budget"], one["method"], one["metric"]): one["mean"] for part, one in ROWS}
TUNED = json.loads((DOCS.parent / "plugins/tuning/tuned.json").read_text(encoding="utf-8"))["tuned"]
FRICTION = {
    (one["task"], one["method"]): one["settings"].get("sampler.friction")
    for one in TUNED if one["task"] in {"energy", "airfoil"} and one["objective"] == "lppd"
}  # fmt: skip
BETA = {
    one["method"]: one["settings"].get("schedule.beta")
    for one in TUNED if one["task"] == "airfoil" and one["objective"] == "lppd"
}  # fmt: skip
NEAR = ("bimodal1d", "mixture5")
LOGISTIC = ("blr-german", "blr-heart", "blr-australian")
NES, EIGHT, TINY = ("posteriordb", "pdb-nes1980"), ("hierarchical", "pdb-eight-schools-noncentered"), (
    "tiny-network", "tiny-bnn")  # fmt: skip
FULL_GRADIENTS = {"mclmc", "hmc", "ggmc", "amagold"}
COST = {
    (part, one["task"]): one["reached"]
    for part, content in PARTS.items() for one in content["findings"] if one["finding"] == "cost"
}  # fmt: skip


def value(part, task, method, metric="joint_error", budget="quick"):
    return VALUE[part, task, budget, method, metric]


def share(part, task, method):
    """The largest squared bias over the joint error."""
    return value(part, task, method, "largest_bias2") / value(part, task, method)


def methods(part, task, metric="joint_error"):
    return [m for p, t, budget, m, name in VALUE if (p, t, budget, name) == (part, task, "quick", metric)]


def factor(task, method):
    """The error on a logistic regression over the best of those with stochastic gradients."""
    of_batches = [m for m in methods("regressions", task) if m not in FULL_GRADIENTS]
    return value("regressions", task, method) / min(value("regressions", task, m) for m in of_batches)


def worst_factor(method):
    return max(factor(task, method) for task in LOGISTIC)


def left(part, task):
    """What a longer run would leave of each error, least first."""
    return sorted((value(part, task, m, "largest_bias2"), m) for m in methods(part, task))


TOLD = {
    "tuned friction of sghmc and baoab was 7 to 39 times smaller":
        [round(f(0.1 / FRICTION[task, m] for task, m in itertools.product(("energy", "airfoil"), ("sghmc", "baoab"))))
         for f in (min, max)] == [7, 39],
    "| **baoab**, msgld or sgnht; none is shown to be best; try sghmc-svrg, sgld-svrg, sgld-cv and psgld too":
        sorted({m for m in methods("regressions", "blr-heart") if m not in FULL_GRADIENTS}, key=worst_factor)[:3]
        == ["baoab", "msgld", "sgnht"]
        and max(value("regressions", task, "baoab") / value("regressions", task, "sgld") for task in LOGISTIC) < 1,
    "on a fourth asgld and msgld lead, with nearly all of their error bias":
        all(share("densities", "banana", m) > 0.9 for m in ("asgld", "msgld")),
    "their error is a third of that of one exact draw, 0.85 or more of it bias":
        all(0.33 < value(*NES, m) < 0.37 and share(*NES, m) >= 0.85 for m in ("sgld-svrg", "sgnht", "baoab", "msgld")),
    "On airfoil baoab and csghmc are mostly optimisers": min(BETA["baoab"], BETA["csghmc"]) > 0.8,
    "compare baoab, csghmc, mclmc and deep-ensemble by `bench compare-on`":
        all(value(part, task, m, "lppd") >= value(part, task, "sghmc", "lppd")
            for part, task in (("networks", "energy"), ("more-networks", "airfoil")) for m in ("baoab", "mclmc"))
        and value("more-networks", "airfoil", "csghmc", "lppd") > value("more-networks", "airfoil", "sghmc", "lppd"),
    "At quick no row reaches it on any regression, on topics or on five of the seven densities":
        not any(reached for (part, _), reached in COST.items() if part in {"regressions", "posteriordb", "simplex"})
        and sorted(bool(reached) for (part, _), reached in COST.items() if part == "densities")
        == [False] * 5 + [True] * 2,
    "so hmc had from 14 fewer to one more":
        [round(f(of_hmc - of_sgld for of_hmc, of_sgld in (
            [next(one["passes"] for p, one in ROWS if (p, one["task"], one["budget"], one["method"])
                  == (part, task, budget, m)) for m in ("hmc", "sgld")]
            for part, task, budget, m, _ in VALUE if m == "hmc"))) for f in (min, max)] == [-14, 1],
    "on bimodal1d sghmc is better than sgld, and at longer runs equivalent. On mixture5 baoab is first, with a "
    "friction of 1, at which it keeps no velocity; no row leads there, and resgld is worse than it":
        {one["settings"]["sampler.friction"] for one in records_of("tuned")
         if (one["method"], one["task"], one["protocol"]) == ("baoab", "mixture5", "adaptive-drift")
         and one["budget"] == "quick"} == {1.0}
        and {(part, one["verdict"].split()[0]) for part in ("densities", "longer", "longest")
             for one in PARTS[part]["findings"] if one["finding"] == "ordering"
             and (one["better"], one["worse"], one["task"].partition("@")[0]) == ("sghmc", "sgld", "bimodal1d")}
        == {("densities", "holds"), ("longer", "equivalent"), ("longest", "equivalent")}
        and [(one["best"], one["leaders"]) for one in PARTS["densities"]["findings"]
         if one["finding"] == "task" and one["task"] == "mixture5"] == [("baoab", [])]
        and next(one["verdict"] for _, one in ROWS if (one["task"], one["method"], one["ranked_by"])
                 == ("mixture5", "resgld", True)) == "worse",
    "on pdb-nes1980 csgld has 0.30 times the error of sgld":
        f"{value(*NES, 'csgld') / value(*NES, 'sgld'):.2f}" == "0.30",
    "of the 25 that cover more than 20 modes 21 are too wide by a factor of 4 or more":
        [len(of_many := [m for m in methods("samplers", "mixture25", "modes_covered")
                         if value("samplers", "mixture25", m, "modes_covered") > 20]),
         sum(value("samplers", "mixture25", m, "within_mode_covariance_ratio") >= 4 for m in of_many)] == [25, 21],
    "The four have nearly the same, 0.0013 to 0.0014":
        {f"{value(*EIGHT, m, 'largest_bias2'):.4f}" for m in ("mclmc", "baoab", "sghmc", "hmc")}
        == {"0.0013", "0.0014"},
    "What would be left is 0.002 of hmc, 0.008 of mclmc, 0.024 of ggmc, 0.074 of csghmc, 0.077 of csgld, "
    "0.090 of sgnht, 0.093 of resgld, 0.129 of sghmc and 0.163 of sgld":
        [(f"{kept:.3f}", m) for kept, m in left(*TINY) if m not in {"msgld", "asgld", "baoab", "psgld"}]
        == [("0.002", "hmc"), ("0.008", "mclmc"), ("0.024", "ggmc"), ("0.074", "csghmc"), ("0.077", "csgld"),
            ("0.090", "sgnht"), ("0.093", "resgld"), ("0.129", "sghmc"), ("0.163", "sgld")],
    "the 153 of `study-samplers`, 102 of which are new, the 83 of `study-longer`":
        sum(one["ranked_by"] for one in PARTS["samplers"]["leaderboard"]) == 153
        and sum(one["ranked_by"] for one in PARTS["longer"]["leaderboard"]) == 83,
}  # fmt: skip


@pytest.mark.parametrize("words", TOLD)
def test_a_sentence_is_what_the_records_say(words):
    assert_told(words, TOLD)


def test_the_laws_of_every_ranked_row_of_the_study_passed():
    laws = {(part, one["method"]): one["laws"] for part, one in ROWS if one["rank"]}
    assert {pair: said for pair, said in laws.items() if not said.startswith("passed")} == {}


MODES = [("samplers", "mixture25"), ("densities", "mixture25"), ("longer", "mixture25")]
DECISIONS = {
    "a density of which you know that it has one mode, normal noise in the gradients, alike in all directions": [
        *(("densities", task) for task in ("gaussian2d", "gaussian", "banana", "rosenbrock")),
        ("samplers", "gaussian"), ("samplers", "rosenbrock"),
        *(("longer", task) for task in ("gaussian2d", "gaussian", "banana", "rosenbrock")),
    ],
    "several modes, 12 sds apart": MODES,
    "two to five modes near each other": [(part, task) for part in ("densities", "longer") for task in NEAR],
    "data small enough for full gradients: regressions, a small network": [
        *(("regressions", task) for task in LOGISTIC), NES, TINY,
    ],
    "a logistic regression on minibatches, if you cannot afford full gradients": [
        *(("regressions", task) for task in LOGISTIC), ("samplers", "blr-german"), ("small-batches", "blr-german"),
    ],
    "a linear regression on minibatches": [NES],
    "the posterior of a small network on minibatches": [TINY],
    "a hierarchical model of ten parameters, exact gradients": [EIGHT],
    "probabilities that sum to one, on minibatches (topics of documents)": [("simplex", "lda-small")],
    "predictions of a small regression network": [("networks", "energy"), ("more-networks", "airfoil")],
}  # fmt: skip
"""The targets of each row of the decision table. The last row awaits the study."""


def decision_table():
    """Each row of the guide's first table: the problem, and all that is said of it."""
    lines = (DOCS / "which-sampler.md").read_text(encoding="utf-8").splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("| what you have"))
    rows = itertools.takewhile(lambda line: line.startswith("|"), lines[first + 2 :])
    return {line.split("|")[1].strip(): line for line in rows}


def ranked(part, task, problem):
    """The ranked rows of a target, the best first, of those that the problem allows."""
    rows = [one for p, one in ROWS if (p, one["task"]) == (part, task) and one["ranked_by"] and one["rank"]]
    allowed = [one for one in rows if not ("on minibatches" in problem and one["method"] in FULL_GRADIENTS)]
    return sorted(allowed, key=lambda one: one["rank"])


def test_each_row_of_the_decision_table_has_its_targets():
    *decided, last = decision_table()
    assert decided == [*DECISIONS]
    assert last == "predictions of other networks"


@pytest.mark.parametrize("problem", DECISIONS)
def test_no_sampler_that_the_guide_does_not_name_is_best(problem):
    """Whoever leads a target of a row of the decision table is named there, with what speaks against it."""
    said = decision_table()[problem]
    words = set(re.findall(r"[a-z][a-z0-9-]*", said))
    for part, task in DECISIONS[problem]:
        best, *_ = ranked(part, task, problem)
        assert best["method"] in words, (part, task, best["method"])
