from __future__ import annotations

from pathlib import Path

from plugins.pages import dictionary

DOCS = Path(__file__).resolve().parents[2] / "docs" / "data-dictionary.md"


def test_the_dictionary_in_the_docs_is_generated():
    assert DOCS.read_text(encoding="utf-8") == dictionary.markdown()


def test_the_columns_of_views_are_explained():
    assert "| passes | double | gradient evaluations of a chain" in dictionary.markdown().partition("## run_metric")[2]
