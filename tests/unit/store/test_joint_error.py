"""Curves by which rows rank, and the metric that they have to give."""

from __future__ import annotations

import numpy as np
import pytest

from harness.results.store.reader import check_joint_error
from harness.system.columns import Malformed

ERRORS = np.array([[0.1, 0.3, 0.2], [0.1, -0.1, 0.2]])
JOINT = (0.09 + 0.01) / 2
ENDS = {"joint_b2_z_max": np.array([[1.0, 0.09], [1.0, 0.02]]), "joint_b2_z2_max": np.array([[1.0, 0.05], [1.0, 0.04]])}


def check(value, **curves):
    check_joint_error([{"name": "joint_error", "value": value}], {"joint_error": ERRORS, **ENDS, **curves})


def test_what_agrees_passes_within_the_rounding_of_draws():
    for factor in (1, 1 + 5e-4):
        check(JOINT * factor)
    check(None, joint_error=np.full((2, 3), np.inf), **dict.fromkeys(ENDS, np.full((2, 2), np.inf)))
    check(JOINT, joint_b2_z_max=np.empty((0, 0)))
    check(3.0, joint_error=np.empty((0, 0)))
    check_joint_error([], {"joint_error": ERRORS})
    check_joint_error([{"name": "joint_error", "value": 3.0}], {})


@pytest.mark.parametrize(
    ("value", "curves"),
    [
        (JOINT / 100, {}),
        (JOINT * 1.01, {}),
        (None, {}),
        (JOINT, {"joint_error": ERRORS / 10}),
        (JOINT / 100, {"joint_error": ERRORS / 10}),
        (JOINT, {name: y / 10 for name, y in ENDS.items()}),
        (JOINT, {"joint_error": np.where(ERRORS > 0.25, np.nan, ERRORS)}),
        (JOINT, {"joint_error": np.repeat(ERRORS, 2, axis=0)}),
        (JOINT, {"joint_b2_z_max": ENDS["joint_b2_z_max"][:1]}),
    ],
)
def test_what_disagrees_is_refused(value, curves):
    with pytest.raises(Malformed, match=r"joint error by its curves|different numbers of chains"):
        check(value, **curves)
