"""What docs say of batches of a hundredth of the rows, against the published records."""

import json
from pathlib import Path

import pytest
from told import assert_told

DOCS = Path(__file__).parents[2] / "docs"
SMALL, LARGER = (
    json.loads((DOCS / f"field/study-{part}.json").read_text(encoding="utf-8"))
    for part in ("small-batches", "regressions")
)
ROWS = [one for one in SMALL["leaderboard"] if one["ranked_by"]]
ERROR, OF_32 = (
    {one["method"]: one["mean"] for one in part["leaderboard"] if one["ranked_by"] and one["task"] == "blr-german"}
    for part in (SMALL, LARGER)
)
BIAS = {one["method"]: one["mean"] / ERROR[one["method"]] for one in SMALL["leaderboard"]
        if one["metric"] == "largest_bias2"}  # fmt: skip
AGAINST_SGLD = {one["better"]: one for one in SMALL["findings"]
                if one["finding"] == "ordering" and one["family"] == "small batches"}  # fmt: skip


def ratios(method):
    """The error over that of sgld, with batches of 32 and of 10."""
    return [f"{of[method] / of['sgld']:.2f}" for of in (OF_32, ERROR)]


def nearest(*methods):
    return [f"{1 / AGAINST_SGLD[method]['nearer']:.1f}" for method in methods]


TOLD = {
    "and ten statements, of which nine are decided":
        len(AGAINST_SGLD) == 10 and len(ERROR) == 14 and {one["seeds"] for one in ROWS} == {40}
        and [m for m, one in AGAINST_SGLD.items() if one["verdict"] == "undecided"] == ["sgld-cv"],
    "**sgld-svrg, mclmc and msgld are best, and tied**: sgld has 2.2 times the error of sgld-svrg":
        [one["method"] for one in ROWS if one["verdict"] in {"best", "tied with the best"}]
        == ["sgld-svrg", "mclmc", "msgld"] and f"{ERROR['sgld'] / ERROR['sgld-svrg']:.1f}" == "2.2",
    "That each is better than sgld is decided, by a factor of 1.8, 1.8 and 1.7 at least":
        nearest("sgld-svrg", "mclmc", "msgld") == ["1.8", "1.8", "1.7"],
    "sgnht has 1.02 and 0.61 times the error of sgld, msgld 0.86 and 0.51, csgld 0.98 and 0.77, sgld-svrg 0.52 and "
    "0.46, mclmc 0.43 and 0.47, but baoab 0.78 and 0.99 and sgld-cv 0.49 and 1.17 times":
        [ratios(m) for m in ("sgnht", "msgld", "csgld", "sgld-svrg", "mclmc", "baoab", "sgld-cv")]
        == [["1.02", "0.61"], ["0.86", "0.51"], ["0.98", "0.77"], ["0.52", "0.46"], ["0.43", "0.47"],
            ["0.78", "0.99"], ["0.49", "1.17"]],
    "sghmc, psgld and, here, baoab are equivalent to sgld. That sgnht is better is decided, by a factor of 1.4 at "
    "least":
        {AGAINST_SGLD[m]["outcome"] for m in ("sghmc", "psgld", "baoab")} == {"equivalent"}
        and nearest("sgnht") == ["1.4"],
    "and not for hmc, at least 1.5 times as wrong as sgld": f"{AGAINST_SGLD['hmc']['nearer']:.1f}" == "1.5",
    "0.95 of the error of sgld and sghmc, 0.83 of msgld's and 0.6 to 0.75 of those of sgld-svrg, mclmc and sgnht":
        [f"{BIAS[m]:.2f}" for m in ("sgld", "sghmc", "msgld")] == ["0.95", "0.95", "0.83"]
        and all(0.6 <= BIAS[m] <= 0.75 for m in ("sgld-svrg", "mclmc", "sgnht")),
    "sgld-cv against sgld, and would need 41 seeds, of which it has 40":
        (AGAINST_SGLD["sgld-cv"]["seeds_to_decide"], AGAINST_SGLD["sgld-cv"]["pairs"]) == (41, 40),
    "sgnht, no better than sgld with 32, has 0.61 times its error; sgld-cv, with 0.49 times there, has 1.17 times":
        AGAINST_SGLD["sgnht"]["outcome"] == "better",
}  # fmt: skip


@pytest.mark.parametrize("words", TOLD)
def test_a_sentence_is_what_the_records_say(words):
    assert_told(words, TOLD)
