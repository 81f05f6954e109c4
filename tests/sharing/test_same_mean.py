import numpy as np
import pytest
from scipy.stats import ttest_ind

from plugins.sharing.agreement import Contradiction, agreement, same_mean

pytestmark = pytest.mark.numbers


def test_same_mean_is_students_t_of_logarithms():
    rng = np.random.default_rng(0)
    a, b = rng.normal(5, 1, 7), rng.normal(5, 1, 3)
    assert same_mean(np.exp(a), np.exp(b)) == pytest.approx(ttest_ind(a, b).pvalue)
    assert same_mean(a - 5, b - 5) == pytest.approx(ttest_ind(a, b).pvalue)
    assert same_mean([25, 25, 25, 25, 25], [25]) == 1
    assert same_mean([25, 25, 25, 25, 25], [24]) == pytest.approx(1 / 6)


@pytest.mark.parametrize("way", [1, -1])
def test_a_rare_event_in_few_runs_is_no_difference_from_none_in_many(way):
    """One of 35 values differs, and it falls among the five by chance in one of seven divisions."""
    assert same_mean(*[[0] * 30, [0, 0, 0, 0, 1]][::way]) == pytest.approx(2 / 7, abs=0.02)
    assert same_mean(*[[0] * 30, [1, 1, 1, 1, 1]][::way]) < 1e-3
    assert same_mean(*[[3.0] * 5, [4.0] * 5][::way]) == pytest.approx(2 / 252)


HAVE, LACK = [0.1, 0.2, 0.3, 0.2, 0.1], [None, None, float("nan"), None, None]


def numbers(of_second):
    return {"first": [0.1, 0.3, 0.2, 0.2, 0.1], "second": of_second}


@pytest.mark.parametrize(("there", "here", "missing"), [(HAVE, LACK, "fresh runs"), (LACK, HAVE, "sent runs")])
def test_a_number_that_all_runs_of_one_side_have_and_none_of_the_other_contradicts(there, here, missing):
    with pytest.raises(Contradiction, match=f"second has no value in the {missing}"):
        agreement(numbers(there), numbers(here), "sent runs", "fresh runs")


def test_the_share_of_runs_with_a_number_is_compared():
    rarely = [0.1, *[None] * 39]
    with pytest.raises(Contradiction, match=r"share of runs with a value of second is 1 in sent .* and 0.025 in fresh"):
        agreement(numbers([0.1] * 40), numbers(rarely), "sent runs", "fresh ones")
    text = agreement(numbers(HAVE), numbers([0.1, 0.2, None, 0.2, 0.1]), "sent runs", "fresh ones")
    assert "without a significant difference" in text
    assert "Holm over 3 numbers" in text


def test_numbers_that_no_run_of_either_side_has_are_left_out():
    assert "Holm over 1 numbers" in agreement(numbers(LACK), numbers(LACK), "sent runs", "fresh ones")
