from __future__ import annotations

from pathlib import Path

from harness.results import connection
from plugins.pages import dictionary

DOCS = Path(__file__).resolve().parents[2] / "docs" / "data-dictionary.md"


def test_the_dictionary_in_the_docs_is_generated():
    assert DOCS.read_text(encoding="utf-8") == dictionary.markdown()


def test_another_database_that_is_open_is_not_described():
    alone = dictionary.markdown()
    with connection.in_memory():
        assert dictionary.markdown() == alone


def test_the_columns_of_views_are_explained():
    assert "| passes | double | gradient evaluations of a chain" in dictionary.markdown().partition("## run_metric")[2]
