"""JSON of a record, strictly."""

from __future__ import annotations

import json
import re
from typing import Any

from harness.system.columns import Malformed
from harness.system.text import is_text

_HALF = re.compile(r"\\u[dD][89a-fA-F]")
"""How JSON writes half of a character beyond the basic plane: alone it is no text."""


def load(text: str, where: str) -> dict[str, Any]:
    """A JSON object; NaN and Infinity, which JSON does not have, are refused."""
    try:
        value = parse(text)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"{where} does not read: {error}") from None
    if not isinstance(value, dict):
        raise Malformed(f"{where} is not a JSON object")
    if _HALF.search(text) and not is_text(json.dumps(value, ensure_ascii=False)):
        raise Malformed(f"{where} holds half a character, which is no text")
    return value


def parse(text: str) -> Any:
    """JSON, strictly."""
    return _DECODER.decode(text)


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
