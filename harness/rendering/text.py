"""Text without control characters: what a plugin or an error message wrote must not steer a terminal or a document."""

from __future__ import annotations

import unicodedata


def plain(text: str) -> str:
    """On one line, without control, format (bidirectional) and surrogate characters."""
    spaced = " ".join(text.split())
    return "".join(c for c in spaced if unicodedata.category(c) not in {"Cc", "Cf", "Cs"})
