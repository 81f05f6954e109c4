"""How many cases a test draws: few by default, twenty times as many in `nox -s fuzz`."""

import os

from hypothesis import settings

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "short")


def cases(number):
    """The settings of a test that draws so many cases by default."""
    return settings(max_examples=number * (20 if PROFILE == "long" else 1))
