"""TOML files that plugins and users write: suites and papers. Their size is limited before they are parsed."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

from harness.system import read_bytes

MAX_BYTES = 2**20
"""The largest file that is read; the longest of the papers' files has 43 kB."""
MAX_PARTS = 50
"""The largest number of parts of a dotted key. The time of `tomllib` grows as the square of their number: 47 s at
8,000.
"""


def read_toml(path: Path) -> dict[str, Any]:
    """Return the document in a file.

    Raises `OSError`, `ValueError` or `RecursionError` if there is none or it is too large.
    """
    return parse(read_text(path))


def read_text(path: Path) -> str:
    """Return the text of a file, for `parse`. Raises the errors of `read_toml`."""
    if (size := path.stat().st_size) > MAX_BYTES:
        raise ValueError(f"it has {size:,} bytes; at most {MAX_BYTES:,} are read")
    return read_bytes(os.path.realpath(path)).decode()


def parse(text: str) -> dict[str, Any]:
    """Return the document in a text. Raises the errors of `read_toml`."""
    if any(part.count(".") >= MAX_PARTS for part in re.split(r"[=,{}\[\]\n]", text)):
        raise ValueError(f"a key has more than {MAX_PARTS} parts")
    return tomllib.loads(text)
