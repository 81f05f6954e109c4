from __future__ import annotations

from types import SimpleNamespace

import pytest

from harness.reporting.scoring.formatting import with_interval
from harness.reporting.scoring.labels import _grouped


def t(mean, half):
    return SimpleNamespace(mean=mean, low=mean - half, high=mean + half, interval="t 95 %", remark="")


@pytest.mark.parametrize(
    ("mean", "half", "text"),
    [
        (17.6, 1.1, "17.6 ± 1.1"), (12_345.0, 250.0, "12,345 ± 250"), (0.0123, 0.0004, "0.01230 ± 0.00040"),
        (2.5e56, 3.2e57, "2.50e+56 ± 3.2e+57"), (-3e-12, 4e-13, "-3.00e-12 ± 4.0e-13"), (4.0, 0.0, "4 ± 0"),
    ],
)  # fmt: skip
def test_a_number_is_never_longer_than_it_says(mean, half, text):
    assert with_interval(t(mean, half)) == text


@pytest.mark.parametrize(
    ("number", "text"), [("150000", "150,000"), ("2.5", "2.5"), ("1e6", "1,000,000"), ("odd", "odd")]
)
def test_a_budget_of_many_is_grouped(number, text):
    assert _grouped(number) == text
