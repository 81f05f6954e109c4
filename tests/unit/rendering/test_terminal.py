"""Tables on a terminal: no line is too wide, no word is split, and what is left out is named."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.reporting.rendering import render
from harness.reporting.rendering.terminal import _CODES, STATUS_KEYS
from harness.reporting.report import Result
from harness.reporting.tables import Column, Table
from harness.results.records import Status

WORDS = st.text("abc\N{SUPERSCRIPT TWO}\N{CJK UNIFIED IDEOGRAPH-4E2D}", min_size=1, max_size=9)
TEXTS = st.lists(WORDS, max_size=9).map(" ".join)


def wide(rows=3):
    columns = [Column("key", "key"), *(Column(f"c{i}", f"column {i}", "right") for i in range(12))]
    cells = [{f"c{i}": f"{k} value {i}" for i in range(12)} for k in range(rows)]
    return Table("wide", columns, [{"key": "row", **row} for row in cells])


def shown(table, width=None, **options):
    return render(Result(tables=[table]), "table", width, **options)


@st.composite
def tables(draw):
    keys = [f"c{i}" for i in range(draw(st.integers(1, 6)))]
    columns = [Column(key, draw(TEXTS), draw(st.sampled_from(["left", "right"]))) for key in keys]
    rows = draw(st.lists(st.fixed_dictionaries(dict.fromkeys(keys, TEXTS)), max_size=4))
    return Table(draw(TEXTS), columns, rows, draw(st.lists(TEXTS, max_size=2)), keys=draw(st.integers(0, len(keys))))


@settings(max_examples=150, deadline=None)
@given(tables(), st.integers(70, 200))
def test_no_line_is_too_wide_no_word_is_split_and_what_is_left_out_is_named(table, width):
    from rich.cells import cell_len

    text = shown(table, width)
    assert max(map(cell_len, text.splitlines()), default=0) <= width
    flat = text.replace("\n", " ")
    printed = set(re.findall(r"[^\s;,()\N{HORIZONTAL ELLIPSIS}]+", text))
    columns = list(zip(*table.cells(), strict=True)) or [()] * len(table.columns)
    for column, cells in zip(table.columns, columns, strict=True):
        words = {word for text in (column.header, *cells) for word in text.split()}
        assert words <= printed or not any(cells) or "more column" in flat or "whole words for those" in flat


def test_a_pipe_gets_every_column_and_a_narrow_terminal_the_first_ones():
    line = next(line for line in shown(wide()).splitlines() if line.startswith("row"))
    assert all(f"value {i}" in line for i in range(12))
    narrow = shown(wide(), 48)
    assert "value 3" in narrow
    assert "value 4" not in narrow
    names = "; ".join(f"column {i}" for i in range(4, 12))
    assert f"8 more columns ({names}): --json, a wider terminal" in narrow.replace("\n", " ")


def test_a_table_with_further_columns_shows_all_others_at_every_width():
    table = Table("", wide().columns[:6], wide().rows, more=wide().columns[6:])
    for width in (60, 100, 400):
        text = shown(table, width)
        assert all(f"value {i}" in " ".join(text.split()) or f"value\n{i}" in text for i in range(2))
        assert "value 6" not in text
        assert "7 more columns: --columns all" in text
    assert "more columns" not in shown(table)


@pytest.mark.parametrize(
    ("form", "text"), [(".2g", "1,600,000"), (".3g", "1,610,000"), (".4g", "1,609,000"), ("", "1.609e6")]
)
def test_numbers_below_a_thousand_million_have_no_power_of_ten(form, text):
    column = Column("passes", "data passes", "right", form)
    assert column.text({"passes": 1609000.0 if form else "1.609e6"}) == text
    assert column.text({"passes": 1.6e-06 if form else "x"}) in ("1.6e-06", "x")


def test_text_is_wrapped_between_words_and_paths_at_slashes():
    columns = [Column("name", "name"), Column("summary", "summary")]
    text = shown(Table("", columns, [{"name": "x", "summary": f"{'word ' * 20}/{'folder/' * 8}end"}]), 50)
    words = set(text.split())
    assert {"word", "x"} <= words
    assert all(re.fullmatch(r"/?(folder/)*(end)?|word|x|name|summary|\u2500+", word) for word in words)


def test_a_paragraph_is_filled_and_an_equation_keeps_its_place():
    text = render(Result(["one two three four five\nsix seven eight\n\n    a = b\n\nend"]), "table", 20)
    assert text == "one two three four\nfive six seven eight\n\n    a = b\n\nend\n"


@pytest.mark.parametrize("status", Status)
def test_every_status_has_a_colour_on_a_terminal_only(status):
    table = Table("", [Column("run", "run"), Column("status", "status")], [{"run": status, "status": status}])
    assert f"\x1b[{_CODES[status]}m{status}\x1b[0m" in shown(table, 80, colour=True)
    assert shown(table, 80, colour=True).count("\x1b[") == 2
    assert "\x1b" not in shown(table, 80) + shown(table)
    assert "status" in STATUS_KEYS


def test_a_colour_does_not_move_a_column():
    columns = [Column("status", "status", "right"), Column("n", "n")]
    table = Table("", columns, [{"status": "ok", "n": 1}, {"status": "problem: it is broken", "n": 22}])
    plain = re.sub(r"\x1b\[\d+m", "", shown(table, 80, colour=True))
    assert plain == shown(table, 80)
