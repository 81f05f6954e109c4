"""Text without control characters: text from plugins, files and errors must not control a terminal or a document."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

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
