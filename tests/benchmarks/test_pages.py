"""The pages of benchmarks: each missed goal has beside it what keeps it from being met."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["benchmarks.md", "benchmarks/tables.md"])
def test_every_missed_goal_has_its_reason(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    reasons = set(re.findall(r"^- \*(.*?)\*: ", text, re.MULTILINE))
    missed = [line.split("|")[1].strip() for line in text.splitlines() if "**no**" in line]
    assert len(missed) > 3
    assert [name for name in missed if not reasons & {name, name.rpartition(": ")[0]}] == []
