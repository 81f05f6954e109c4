"""What docs say of the headlines that were searched and run again, against the published records."""

import json
from pathlib import Path
from statistics import median

import pytest
from told import assert_told

from reports.study import REPEATED, with_repeated

DOCS = Path(__file__).parents[2] / "docs"
PART = json.loads((DOCS / "field/study-repeated.json").read_text(encoding="utf-8"))
BOARDS = [
    json.loads((DOCS / f"field/study-{part}.json").read_text(encoding="utf-8"))["leaderboard"]
    for part in ("samplers", "densities", "regressions", "posteriordb", "tiny-network")
]
ROWS = [one for one in PART["leaderboard"] if one["ranked_by"]]
BEFORE = {
    (one["task"], one["method"]): one["mean"]
    for board in BOARDS for one in board if one["ranked_by"] and one["rank"] and one["budget"] == "quick"
}  # fmt: skip
NOW = {(one["task"], one["method"]): one["mean"] for one in ROWS}
CHANGE = {pair: max(NOW[pair] / BEFORE[pair], BEFORE[pair] / NOW[pair]) for pair in NOW}
"""By which factor the joint error of a row changed."""
AGAIN = {
    (one["task"].partition("@")[0], one["better"], one["worse"]): one
    for one in PART["findings"] if one["finding"] == "ordering" and one["family"] == "repeated"
}  # fmt: skip
RATIO = {
    (task, better): BEFORE[task, better] / BEFORE[task, worse] / one["effect"]
    for (task, better, worse), one in AGAIN.items()
}
BY = {pair: max(ratio, 1 / ratio) for pair, ratio in RATIO.items()}
"""By which factor the ratio of two errors changed."""
LOGISTIC = ("blr-german", "blr-heart", "blr-australian")
TINY, AUSTRALIAN = ("tiny-bnn", "sgnht"), ("blr-australian", "baoab")
TOLD = {
    "**15 of the 17 hold.**":
        sorted(one["verdict"].split()[0] for one in AGAIN.values()) == ["equivalent", *["holds"] * 15, "undecided"],
    "That baoab is better than sgld on blr-german, and on mixture5, was undecided or undeclared before, and is decided "
    "here, on 60 seeds":
        [AGAIN[task, "baoab", "sgld"]["pairs"] for task in ("blr-german", "mixture5")] == [60, 60],
    "**smile and sgnht are equivalent on gaussian.** The 0.64 of the first rows":
        AGAIN["gaussian", "smile", "sgnht"]["verdict"].startswith("equivalent")
        and f"{BEFORE['gaussian', 'smile'] / BEFORE['gaussian', 'sgnht']:.2f}" == "0.64",
    "it has 0.82 times the error, in place of 0.63":
        f"{AGAIN['banana', 'asgld', 'sgld']['effect']:.2f}" == "0.82"
        and f"{BEFORE['banana', 'asgld'] / BEFORE['banana', 'sgld']:.2f}" == "0.63",
    "by a factor of 1.16 in the median of 29 rows and of 1.72 at most**, with another search and on other seeds; three "
    "change by 1.5 or more: sgnht on tiny-bnn, baoab on blr-australian and sgld on pdb-nes1980":
        (len(CHANGE), f"{median(CHANGE.values()):.2f}", f"{max(CHANGE.values()):.2f}") == (29, "1.16", "1.72")
        and {pair for pair, change in CHANGE.items() if change >= 1.5} == {TINY, AUSTRALIAN, ("pdb-nes1980", "sgld")},
    "it changes by a factor of 1.36 in the median, and by 2 or more in two of 17, sgnht over sgld on tiny-bnn (0.32, "
    "then 0.13) and baoab over sgld on blr-australian (0.33, then 0.73)":
        f"{median(BY.values()):.2f}" == "1.36" and {pair for pair, by in BY.items() if by >= 2} == {TINY, AUSTRALIAN}
        and [f"{AGAIN[*pair, 'sgld']['effect']:.2f}" for pair in (TINY, AUSTRALIAN)] == ["0.13", "0.73"],
    "The errors of the rows changed by a factor of 1.16 in the median and of 1.72 at most, their ratios by up to 2.4":
        f"{max(BY.values()):.1f}" == "2.4",
    "**No run was lost**, of 1,370; sgld has failed chains on tiny-bnn again, 25 of 640":
        sum(one["seeds"] for one in ROWS) == 1370 and not any(one["diverged"] or one["failed"] for one in ROWS)
        and [round(640 * one["mean"]) for one in PART["leaderboard"]
             if (one["task"], one["method"], one["metric"]) == ("tiny-bnn", "sgld", "failed_chains")] == [25],
    "and would need 44 seeds, of which it has 40":
        (AGAIN["banana", "asgld", "sgld"]["seeds_to_decide"], AGAIN["banana", "asgld", "sgld"]["pairs"]) == (44, 40),
    "baoab has 0.78, 0.60 and 0.33 times the error of sgld, and with another search, on other seeds, 0.76, 0.44 and "
    "0.73 times, which is decided on all three":
        [f"{AGAIN[task, 'baoab', 'sgld']['effect']:.2f}" for task in LOGISTIC] == ["0.76", "0.44", "0.73"]
        and [f"{BEFORE[task, 'baoab'] / BEFORE[task, 'sgld']:.2f}" for task in LOGISTIC] == ["0.78", "0.60", "0.33"]
        and {AGAIN[task, "baoab", "sgld"]["outcome"] for task in LOGISTIC} == {"better"},
    "searched and run again on 50 seeds they are equivalent on gaussian":
        AGAIN["gaussian", "smile", "sgnht"]["pairs"] == 50,
    "searched again, asgld is not shown to be better than sgld there":
        AGAIN["banana", "asgld", "sgld"]["verdict"] == "undecided",
}  # fmt: skip


@pytest.mark.parametrize("words", TOLD)
def test_a_sentence_is_what_the_records_say(words):
    assert_told(words, TOLD)


def test_the_second_search_shares_no_seed_with_the_first_ones():
    first, second = (
        json.loads((DOCS.parent / f"plugins/tuning/{study}.json").read_text(encoding="utf-8"))["tuned"]
        for study in ("tuned", "repeated")
    )
    seeds = [
        {seed for one in of for name in ("seeds", "finalist_seeds") for seed in one.get(name, ())}
        for of in (first, second)
    ]
    assert seeds[1]
    assert not seeds[0] & seeds[1]
    assert {(one["task"], one["method"]) for one in second} == {*NOW}
    assert {one["search"] for one in second} == {1}


def test_the_table_has_the_statements_of_the_part_alone_beside_the_ratios_of_the_others():
    of_another_protocol = [one | {"protocol": "another", "mean": 9.0} for board in BOARDS for one in board]
    boards = [of_another_protocol, *BOARDS, of_another_protocol]
    page = with_repeated("{}\n{}".format(*REPEATED), PART, boards)
    rows = [line for line in page.splitlines() if " over " in line]
    assert len(rows) == len(AGAIN) == 17
    assert len([row for row in rows if "resgld over sgld" in row]) == 1, "an earlier statement has these rows too"
    assert any(row.startswith("| blr-australian | baoab over sgld | 0.335 | 0.729 ") for row in rows)
    assert page.split(REPEATED[0])[1] in (DOCS / "study-results.md").read_text(encoding="utf-8")
