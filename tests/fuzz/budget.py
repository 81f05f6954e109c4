"""How many cases a test draws: few by default, `MORE` times as many in `nox -s fuzz`."""

import os

from hypothesis import settings

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "short")
MORE = 10


def cases(number):
    """The settings of a test that draws so many cases by default."""
    return settings(max_examples=number * (MORE if PROFILE == "long" else 1))
