"""Sentences of docs that have numbers, each beside what must hold of the published records."""

from collections.abc import Mapping
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
PAGES = ("study.md", "study-design.md", "study-results.md", "which-sampler.md", "tuning.md", "../README.md")


def assert_told(words: str, told: Mapping[str, bool]) -> None:
    """The words stand on a page, however its lines are broken, and the records say so."""
    pages = [" ".join((DOCS / name).read_text(encoding="utf-8").split()) for name in PAGES]
    assert any(words in page for page in pages), words
    assert told[words], words
