"""Claims: what holds, fails, stays undecided, and that the family is the table's."""

from types import SimpleNamespace

import pytest

from harness.reporting.scoring.estimates import averaged
from harness.results.records import ValueRow
from plugins.papers import bench_papers
from plugins.papers.claims import Claim, Ours, Setup, judge_family, load_claims
from plugins.papers.files import read

SIDE = Setup("a", "t", "p", 1)


def claim(kind="ordering", direction="min", **changes):
    fields = dict.fromkeys(Claim.__dataclass_fields__)
    fields |= {
        "paper": "p",
        "differs": (),
        "table": "Table 1",
        "statement": "s",
        "metric": "m",
        "better": SIDE,
        "worse": SIDE,
    }
    return Claim(**{**fields, "kind": kind, "direction": direction, **changes})


def ours(values, diverged=(), failed=()):
    group = SimpleNamespace(
        done=_Runs(range(len(values))), diverged=_Runs(diverged), failed=_Runs(failed), settings={}, tuning=None,
        tuning_version=0, full_gradients=None,
    )  # fmt: skip
    return Ours(
        group,
        averaged(
            "m", ValueRow(name="m", unit="1", direction="min", summary="", is_primary=True), dict(enumerate(values))
        ),
    )


class _Runs(list):
    @property
    def numbers(self):
        return SimpleNamespace(seed=list(self))


def judged(left, right, **changes):
    (verdict,) = judge_family([claim(**changes)], [[ours(left), ours(right)]])
    return verdict


TEN = [5.0 + 0.01 * i for i in range(10)]
FIVE = TEN[:5]


def test_ten_seeds_are_tested_in_the_direction_of_the_claim():
    verdict = judged(TEN, [x + 0.1 + 0.01 * (i % 3) for i, x in enumerate(TEN)])
    assert (verdict.finding, verdict.n) == ("holds", 10)
    assert verdict.p == pytest.approx(2 / 4**10)  # the least of ten seeds
    assert "paired t" in verdict.reason
    assert judged(TEN, [x - 0.1 for x in TEN]).finding == "fails"
    assert judged(TEN, [x + 0.1 for x in TEN], direction="max").finding == "fails"


def test_without_a_difference_nothing_is_decided():
    assert judged(TEN, [x + 0.1 * (-1) ** i for i, x in enumerate(TEN)]).finding == "undecided"
    assert judged(TEN, TEN).finding == "undecided"


def test_five_seeds_have_a_paired_t_and_two_have_nothing():
    verdict = judged(FIVE, [x + 1 + 0.01 * i for i, x in enumerate(FIVE)])
    assert verdict.finding == "holds"
    assert "paired t" in verdict.reason
    assert judged(FIVE[:2], [9.0, 9.1]).finding == "undecided"


def test_the_family_is_all_claims_of_the_table_also_those_that_were_not_run():
    """p = 2/1024 alone holds; among 30 declared claims of which none other was run it is 60/1024."""
    worse = [x + 0.1 for x in TEN]
    many = [claim()] * 30
    verdicts = judge_family(many, [[ours(TEN), ours(worse)], *[[None, None]] * 29])
    assert verdicts[0].p == pytest.approx(60 / 1024)
    assert verdicts[0].finding == "undecided"
    assert verdicts[1:] == [None] * 29


def test_a_run_that_diverged_leaves_an_ordering_undecided():
    (verdict,) = judge_family([claim()], [[ours(TEN[:9], diverged=[9]), ours([x + 1 for x in TEN])]])
    assert verdict.finding == "undecided"
    assert "diverged" in verdict.reason


@pytest.mark.parametrize(
    ("shift", "margin", "finding"), [(0.0, 0.01, "holds"), (1.0, 0.01, "fails"), (0.0, 1e-6, "undecided")]
)
def test_equality_is_judged_by_the_interval_and_the_margin(shift, margin, finding):
    noise = [0.001 * (-1) ** i * (1 + i) for i in range(10)]
    verdict = judged(TEN, [x + shift + e for x, e in zip(TEN, noise, strict=True)], kind="equality", margin=margin)
    assert verdict.finding == finding
    assert verdict.p is None


def share(successes, n, share, trials=5, diverged=()):
    one = claim(kind="share", worse=None, share=share, trials=trials, margin=0.2)
    (verdict,) = judge_family([one], [[ours([1.0] * successes + [0.0] * (n - successes), diverged=diverged)]])
    return verdict.finding


def test_a_share_is_told_from_the_printed_one_by_fishers_test():
    assert share(0, 10, 5) == "fails"  # p = 1/3003
    assert share(10, 10, 5) == "holds"
    assert share(9, 10, 4) == "holds"
    assert share(6, 10, 5) == "undecided"  # not told apart, not near either
    assert share(5, 5, 5) == "undecided"  # too few seeds
    assert share(0, 10, 0) == "holds"
    assert share(5, 10, 7) == "undecided"  # 7 of 5 is no share


def test_a_share_of_which_a_run_failed_is_open():
    one = claim(kind="share", worse=None, share=5, trials=5, margin=0.2)
    (verdict,) = judge_family([one], [[ours([1.0] * 10, failed=[10])]])
    assert (verdict.finding, verdict.reason) == ("undecided", "1 of our runs failed")


def test_that_none_succeeds_is_vacuous_only_where_those_that_should_succeed_fail():
    def findings(successes):
        members = [claim(kind="share", worse=None, share=s, trials=5, margin=0.2) for s in (5, 0)]
        runs = [[ours([1.0] * n + [0.0] * (10 - n))] for n in (successes, 1)]
        return [verdict.finding for verdict in judge_family(members, runs)]

    assert findings(0) == ["fails", "vacuous"]
    assert findings(10) == ["holds", "holds"]
    assert findings(6) == ["undecided", "holds"]


def test_a_run_that_diverged_is_no_success():
    assert share(0, 1, 5, diverged=range(100, 109)) == "fails"
    assert share(0, 0, 5, diverged=range(10)) == "fails"
    assert share(0, 0, 0, diverged=range(10)) == "holds"
    unmeasured = Ours(SimpleNamespace(done=_Runs([0]), diverged=_Runs([1])), None)
    assert judge_family([claim(kind="share", worse=None, share=5, trials=5)], [[unmeasured]]) == [None]


@pytest.mark.parametrize(
    ("baseline", "finding"), [(5.0, "not informative"), (99.0, "not informative"), (150.0, "holds")]
)
@pytest.mark.parametrize("kind", ["ordering", "equality"])
def test_a_baseline_of_almost_no_effective_sample_size_decides_nothing(baseline, finding, kind):
    left, right = [baseline * 9 + seed % 3 for seed in range(5)], [baseline - 2 + seed for seed in range(5)]
    verdict = judged(left, right, kind=kind, direction="max", margin=0.05, least_ess=100.0)
    assert verdict.finding == (finding if finding != "holds" or kind == "ordering" else "fails")
    assert ("effective sample size" in verdict.reason) == (finding == "not informative")
    assert judged(left, right, kind=kind, direction="max", margin=0.05).finding in {"holds", "fails"}


def test_the_claims_of_table_5_declare_how_much_their_baselines_need():
    claims = load_claims(read(bench_papers())[0])
    asked = {(claim.paper, claim.table, claim.least_ess) for claim in claims if claim.least_ess is not None}
    assert asked == {("csgmcmc", "Table 5", 100.0)}
    assert {c.least_ess for c in claims if c.metric and "ess" in c.metric.split("_")} == {100.0}


def test_a_measure_of_ours_makes_a_finding_one_at_our_settings():
    (figure,) = [c for c in load_claims(read(bench_papers())[0]) if (c.paper, c.table) == ("csgmcmc", "Figure 2")]
    assert figure.ours == ("measure: total variation between the shares of draws by nearest mode and the truth",)
