"""Text for people: without control characters, numbers with their nouns, times in one unit.

Text from plugins, files and errors must not control a terminal or a document.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable

from harness.system.errors import UsageError

CONTROL = ("Cc", "Cf", "Cs")
"""Unicode's categories of control, format (bidirectional) and surrogate characters."""


def harmless(text: str, kept: str = "") -> str:
    """Return the text without control characters, except those in `kept`."""
    if text.isprintable():
        return text
    return "".join(c for c in text if c in kept or unicodedata.category(c) not in CONTROL)


def plain(text: str) -> str:
    """Return the text on one line, without control characters."""
    return harmless(" ".join(text.split()))


def seconds_set(variable: str, default: float) -> float:
    """Return the time that an environment variable sets. `UsageError` if it is not a number of seconds above zero."""
    text = os.environ.get(variable) or str(default)
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise UsageError(f"{variable} is {text!r:.80}, not a number of seconds above zero; correct or unset it")
    return seconds


def words(values: str | Iterable[str] | None) -> list[str]:
    """Return the names in "a,b,c", or in several texts of that form, without duplicates."""
    texts = [values] if isinstance(values, str) else values or []
    return list(dict.fromkeys(word.strip() for text in texts for word in text.split(",") if word.strip()))


def is_text(value: str) -> bool:
    """Return whether a text can be encoded.

    Lone surrogates cannot; they come from JSON escapes or from bytes of a command.
    """
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def count(number: int, noun: str) -> str:
    """Return a number with its noun: `1 run`, `2 runs`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def span(seconds: float | None) -> str:
    """Return a time in one unit: 42 s, 12 min, 3.4 h, 2.1 d. "" for None."""
    if seconds is None:
        return ""
    for unit, length, most in (("s", 1, 100), ("min", 60, 100), ("h", 3600, 48)):
        if seconds < most * length:
            return f"{seconds / length:.{int(unit == 'h')}f} {unit}"
    return f"{seconds / 86_400:.1f} d"
