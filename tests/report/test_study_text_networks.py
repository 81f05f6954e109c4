"""What docs say of the two networks in words, against the published records of energy and airfoil."""

import json
from pathlib import Path

import pytest
from told import assert_told

DOCS = Path(__file__).parents[2] / "docs"
NETWORK, SPLITS, AIRFOIL, AIRFOIL_SPLITS = (
    json.loads((DOCS / f"field/{name}.json").read_text(encoding="utf-8"))
    for name in ("study-networks", "energy-splits", "study-more-networks", "airfoil-splits")
)
OF_NETWORK, OF_AIRFOIL = (
    {"ordering": [one for one in part["findings"] if one["finding"] == "ordering"]} for part in (NETWORK, AIRFOIL)
)
ENERGY, OF_SEARCH = (
    {one["method"]: one
     for one in json.loads((DOCS.parent / "plugins/tuning/tuned.json").read_text(encoding="utf-8"))["tuned"]
     if (one["task"], one["budget"], one["objective"]) == (task, "quick", "lppd")}
    for task in ("energy", "airfoil")
)  # fmt: skip
ENSEMBLES = ("tuned", "usual")
"""The two rows of the ensemble, at the settings of its search and at the usual learning rate."""


def lppd_of(rows):
    """The log density of test rows by method, the highest first; the two ensembles are named by `ENSEMBLES`."""
    named = [
        (ENSEMBLES["step_size=0.001" in one["label"]] if one["method"] == "deep-ensemble" else one["method"],
         one["mean"])
        for one in rows
    ]  # fmt: skip
    return dict(sorted(named, key=lambda pair: -pair[1]))


(LPPD, SECOND, THIRD), ON_AIRFOIL = (
    [lppd_of(rows) for rows in (
        [one for one in part["leaderboard"] if one["metric"] == "lppd"],
        *([one for one in splits if one["data_seed"] == split] for split in (2, 3)),
    )]
    for part, splits in ((NETWORK, SPLITS), (AIRFOIL, AIRFOIL_SPLITS))
)  # fmt: skip
"""The log density of test rows on each split of energy and of airfoil."""


def samplers(values):
    """The samplers among the rows of a split, best first."""
    return [method for method in values if method not in {*ENSEMBLES, "swag"}]


def ahead_of(ensemble, values):
    return sum(values[ensemble] > values[method] for method in samplers(values))


def counted(verdict, of):
    return [one for one in of["ordering"] if one["verdict"].startswith(verdict)]


def verdicts(verdict, of):
    """The better and the worse sampler of the statements with a verdict."""
    return {(one["better"], one["worse"]) for one in counted(verdict, of)}


TOLD = {
    "twelve statements, of which 20 seeds decide eleven":
        len(OF_NETWORK["ordering"]) - len(counted("not run", of=OF_NETWORK)) == 12
        and len(samplers(LPPD)) == 11 and {one["seeds"] for one in NETWORK["leaderboard"]} == {20}
        and [(one["better"], one["worse"], one["seeds_to_decide"]) for one in counted("undecided", of=OF_NETWORK)]
        == [("csghmc", "sghmc", 71)],
    "mclmc has an lppd of 1.745 on the 154 test rows, baoab, not told apart from it, 1.726, sgnht 1.718, sghmc 1.675 "
    "and sgld, the last of the eleven, 1.509":
        [f"{LPPD[m]:.3f}" for m in ("mclmc", "baoab", "sgnht", "sghmc", "sgld")]
        == ["1.745", "1.726", "1.718", "1.675", "1.509"] and samplers(LPPD)[:3] == ["mclmc", "baoab", "sgnht"]
        and samplers(LPPD)[-1] == "sgld"
        and [one["method"] for one in NETWORK["leaderboard"] if one["verdict"] == "not known"] == ["baoab"],
    "0.0004 (mclmc), 0.0026 (sghmc) and 0.0144 (baoab)":
        [f"{ENERGY[m]['settings']['sampler.friction']:.4f}" for m in ("mclmc", "sghmc", "baoab")]
        == ["0.0004", "0.0026", "0.0144"],
    "Tuned, it has 1.719: more than sghmc and csghmc, which is decided, and less than mclmc and baoab":
        f"{LPPD['tuned']:.3f}" == "1.719" and LPPD["tuned"] < min(LPPD["mclmc"], LPPD["baoab"])
        and verdicts("fails", OF_NETWORK)
        == {("hmc", "sghmc"), ("sghmc", "deep-ensemble"), ("csghmc", "deep-ensemble")},
    "after the warm start at 0.01 that every row has, it has 1.821":
        f"{LPPD['usual']:.3f}" == "1.821" and ahead_of("usual", LPPD) == 11,
    "swag, a normal law fitted to iterates of SGD, has 1.435": f"{LPPD['swag']:.3f}" == "1.435",
    "csgld is better by 0.044 nats at least, and psgld, which got cycles, by 0.16":
        {one["better"]: f"{one['nearer']:.2g}" for one in counted("holds", of=OF_NETWORK)
         if one["better"] in {"csgld", "psgld"}} == {"csgld": "0.044", "psgld": "0.16"}
        and ENERGY["psgld"]["settings"]["schedule"] == "cyclical"
        and verdicts("equivalent", OF_NETWORK) == {("asgld", "sgld")},
    "On the former the ensemble's chosen settings have 1.42": f"{ENERGY['deep-ensemble']['value']:.2f}" == "1.42",
    "baoab is first on both, mclmc fourth and second":
        all((samplers(split)[0], samplers(split)[-1], len(split)) == ("baoab", "sgld", 14) for split in (SECOND, THIRD))
        and [samplers(split).index("mclmc") for split in (SECOND, THIRD)] == [3, 1],
    "The ensemble at 0.001 has 1.836 on one, ahead of all samplers, and 1.456 on the other, ahead of three":
        (f"{THIRD['usual']:.3f}", f"{SECOND['usual']:.3f}") == ("1.836", "1.456")
        and [ahead_of("usual", split) for split in (THIRD, SECOND)] == [11, 3],
    "asgld and sgld are last on all three splits":
        all(samplers(split)[-2:] == ["asgld", "sgld"] for split in (LPPD, SECOND, THIRD)),
    "they have an lppd of 1.82, against 1.74 of the best sampler":
        f"{LPPD['usual']:.2f}" == "1.82" and f"{max(LPPD[m] for m in samplers(LPPD)):.2f}" == "1.74",
    "sgld is last of eleven on both data sets, 0.24 and 0.10 nats behind the best, and equivalent to asgld. baoab is "
    "second on both; mclmc is first on "
    "energy and fourth on airfoil, csghmc sixth and first":
        [f"{max(of[m] for m in samplers(of)) - of['sgld']:.2f}" for of in (LPPD, ON_AIRFOIL[0])] == ["0.24", "0.10"]
        and [[samplers(of).index(m) for m in ("sgld", "baoab", "mclmc", "csghmc")] for of in (LPPD, ON_AIRFOIL[0])]
        == [[10, 1, 0, 5], [10, 1, 3, 0]],
    "it has more than all eleven samplers on energy and than nine on airfoil":
        [ahead_of("usual", of) for of in (LPPD, ON_AIRFOIL[0])] == [11, 9],
    "on airfoil loses to csghmc and baoab, and is equivalent to sghmc":
        [[one["verdict"].split()[0] for one in OF_AIRFOIL["ordering"]
          if (one["better"], one["worse"]) == (m, "deep-ensemble") and one["task"] == "airfoil"]
         for m in ("csghmc", "baoab", "sghmc", "mclmc")] == [["holds"]] * 2 + [["equivalent"]] * 2,
    "All are decided; pilot runs on five seeds had said that 20 seeds decide 12.4 and 40 seeds 14.0":
        len(OF_AIRFOIL["ordering"]) == 30 and len(counted("not run", of=OF_AIRFOIL)) == 15
        and not counted("undecided", of=OF_AIRFOIL) and {one["seeds"] for one in AIRFOIL["leaderboard"]} == {40},
    "csghmc has an lppd of 0.172 on the 301 test rows, baoab 0.158, msgld 0.149, mclmc 0.135, sghmc 0.123 and sgld, "
    "the last of the eleven, 0.072":
        [f"{ON_AIRFOIL[0][m]:.3f}" for m in ("csghmc", "baoab", "msgld", "mclmc", "sghmc", "sgld")]
        == ["0.172", "0.158", "0.149", "0.135", "0.123", "0.072"]
        and samplers(ON_AIRFOIL[0])[:5] == ["csghmc", "baoab", "msgld", "mclmc", "sghmc"],
    "one cycle, in the first 0.91 of which the temperature is 0":
        [(of["schedule.cycles"], f"{of['schedule.beta']:.2f}") for of in (
            OF_SEARCH[m]["settings"] for m in ("csghmc", "baoab", "csgld"))] == [(1, "0.91"), (1, "0.82"), (1, "0.97")]
        and ENERGY["csghmc"]["settings"]["schedule.cycles"] == 17,
    "sghmc, psgld, msgld and csgld are better than sgld, asgld is equivalent to it, hmc is worse than sghmc, and swag "
    "too":
        verdicts("holds", OF_AIRFOIL) & verdicts("holds", OF_NETWORK)
        == {*((m, "sgld") for m in ("sghmc", "psgld", "msgld", "csgld")), ("sghmc", "swag")}
        and ("asgld", "sgld") in verdicts("equivalent", OF_AIRFOIL) & verdicts("equivalent", OF_NETWORK)
        and verdicts("fails", OF_AIRFOIL) == {("hmc", "sghmc")},
    "sgnht and mclmc, better than sghmc there, are equivalent to it here; csghmc, undecided there, is better":
        {("sgnht", "sghmc"), ("mclmc", "sghmc")} <= verdicts("equivalent", OF_AIRFOIL) & verdicts("holds", OF_NETWORK)
        and ("csghmc", "sghmc") in verdicts("holds", OF_AIRFOIL) & verdicts("undecided", OF_NETWORK),
    "The tuned ensemble, at 0.124, is": f"{ON_AIRFOIL[0]['tuned']:.3f}" == "0.124",
    "it has 0.155, behind csghmc and baoab": f"{ON_AIRFOIL[0]['usual']:.3f}" == "0.155",
    "150 validation rows, where it has 0.10": f"{OF_SEARCH['deep-ensemble']['value']:.2f}" == "0.10",
    "csghmc is first, baoab and msgld are among the first three, and asgld and sgld are last":
        all(samplers(of)[0] == "csghmc" and {"baoab", "msgld"} <= {*samplers(of)[:3]}
            and samplers(of)[-2:] == ["asgld", "sgld"] and len(of) == 14 for of in ON_AIRFOIL[1:]),
    "msgld, third here, is ninth of eleven on energy": samplers(LPPD).index("msgld") == 8,
    "sghmc, baoab, mclmc, sgnht and csghmc are better by 0.04 to 0.10 nats":
        [f"{f(ON_AIRFOIL[0][m] - ON_AIRFOIL[0]['sgld'] for m in ('sghmc', 'baoab', 'mclmc', 'sgnht', 'csghmc')):.2f}"
         for f in (min, max)] == ["0.04", "0.10"],
    "0.2 nats on energy and 0.06 on airfoil":
        [f"{max(max(of[m] for of in each) - min(of[m] for of in each) for m in samplers(each[0])):.1g}"
         for each in ((LPPD, SECOND, THIRD), ON_AIRFOIL)] == ["0.2", "0.06"],
}  # fmt: skip


@pytest.mark.parametrize("words", TOLD)
def test_a_sentence_is_what_the_records_say(words):
    assert_told(words, TOLD)
