"""Text without control characters: what a plugin, a file or an error says must not steer a terminal or a document."""

from __future__ import annotations

import unicodedata

CONTROL = ("Cc", "Cf", "Cs")
"""Unicode's categories of control, format (bidirectional) and surrogate characters."""


def harmless(text: str, kept: str = "") -> str:
    """Without control characters, but those to be kept."""
    if text.isprintable():
        return text
    return "".join(c for c in text if c in kept or unicodedata.category(c) not in CONTROL)


def plain(text: str) -> str:
    """On one line, without control characters."""
    return harmless(" ".join(text.split()))


def is_text(value: str) -> bool:
    """Whether it has whole characters only: half of one comes from JSON's escapes, or from bytes of a command."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
