"""Words and values that somebody may put where a name, a note or a parameter is meant."""

import unicodedata

from hypothesis import strategies as st

from harness.system.text import CONTROL

WORDS = (
    "", "../../../../etc/passwd", "/etc/passwd", "a/b", "a\\b", "'; drop table run; --", '"', "&<script>alert(1)",
    "\x1b[31mred\x1b]0;title\x07", "\x00", "\r\n", "\u202eright to left", "\ud800", "a|b", "$\\frac{", "=cmd()",
    "%s{0}", "\U0001f600", "x" * 10_000, "nan", "-", ".", "..", "~", "*", "\x85\u2028", "\ufeff", "`id`",
    "a,b", "@x", "[x](y)",
)  # fmt: skip
NUMBERS = (0, -1, 1, 2**31, 2**53, 2**63 - 1, 2**63, 2**70, -(2**63) - 1, 0.0, -0.0, 0.5, 1e308, 5e-324, True, False)
RAW = "@raw@"
"""Stands in a JSON document for text that goes in as it is: numbers and nesting that no encoder writes."""
RAW_JSON = (
    "1e400", "-1e400", "NaN", "Infinity", "1" * 400, "1" * 5000, "[" * 3000 + "]" * 3000, "[" * 900 + "]" * 900,
    "[" * 200_000,
    '{"a":' * 3000 + "1" + "}" * 3000, '"\\ud800"', '"\\ud83d\\ude00"', '"\\u0000"', "01", "'x'", "", "{}{}",
)  # fmt: skip

words = st.one_of(st.sampled_from(WORDS), st.text(max_size=20))
values = st.one_of(
    st.none(),
    st.sampled_from(NUMBERS),
    words,
    st.sampled_from(RAW_JSON).map(lambda text: RAW + text),
    st.lists(st.one_of(st.integers(), st.none(), st.sampled_from(WORDS[:8])), max_size=3),
    st.dictionaries(st.sampled_from(WORDS[1:8]), st.none(), max_size=2),
)


def control(text):
    """The characters of a text that could steer a terminal."""
    return [c for c in text if unicodedata.category(c) in CONTROL and c not in "\n\t"]
