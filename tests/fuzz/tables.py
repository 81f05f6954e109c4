"""TOML documents and ways to spoil them: by structure, by value, and as text."""

import json
import math

from fuzz.hostile import NUMBERS, WORDS
from hypothesis import strategies as st

RAW = (
    "1979-05-27", "1979-05-27T07:32:00Z", "07:32:00", "nan", "inf", "-inf", "1" * 400, "0x" + "f" * 400, "1e400",
    "[" * 300, "[" * 5000, "{a = " * 300, '"""', "''", '"\\ud800"', "true", "[1, 'a', {}]", "{}", "[]", "[[[[1]]]]",
    "=", "# no more", '"\\u0000"', '"\\u001b[31m"', "1_000", "+1", "-0.0",
)  # fmt: skip


ENDS = ("", "\x00", "]", '"', "\udcff", "a = 1\na = 2")


class Text(str):
    """TOML that goes in as it is."""

    __slots__ = ()


def toml(value):
    """A value as inline TOML."""
    if isinstance(value, Text):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(member)}" for key, member in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return json.dumps(value)


def document(tables):
    """A whole file: one assignment a line."""
    return "".join(f"{json.dumps(key)} = {toml(value)}\n" for key, value in tables.items())


def _places(inside, at=()):
    paths = [at] if at else []
    if isinstance(inside, dict | list):
        for key, member in inside.items() if isinstance(inside, dict) else enumerate(inside):
            paths += _places(member, (*at, key))
    return paths


values = st.one_of(
    st.sampled_from(NUMBERS),
    st.sampled_from(WORDS),
    st.sampled_from(RAW).map(Text),
    st.text(max_size=10),
    st.floats(),
    st.lists(st.one_of(st.integers(), st.booleans(), st.text(max_size=3)), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=3),
)


@st.composite
def spoilt(draw, tables):
    """A document with up to three of its members replaced, renamed, repeated or gone, or cut off as text."""
    copy = json.loads(json.dumps(tables))
    for _ in range(draw(st.integers(0, 3))):
        places = _places(copy)
        if not places:
            break
        *above, last = draw(st.sampled_from(places))
        inside = copy
        for key in above:
            inside = inside[key]
        how = draw(st.sampled_from(("replace", "replace", "remove", "rename", "repeat")))
        if how == "replace":
            inside[last] = draw(values)
        elif how == "remove":
            del inside[last]
        elif isinstance(inside, list):
            inside.append(inside[last])
        else:
            inside[draw(st.sampled_from((*WORDS[1:], *tables)))] = inside[last]
    text = document(copy)
    if draw(st.integers(0, 9)) == 0:
        text = text[: draw(st.integers(0, len(text)))] + draw(st.sampled_from(ENDS))
    return text.encode("utf-8", "surrogateescape" if "\udcff" in text and "\ud800" not in text else "replace")
