"""Seeds that follow from a text: nobody who does not know the text can choose settings for them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from itertools import count

from harness.tasks import TUNING_SEED


def fresh_seeds(number: int, *parts: str | int, known: Collection[int] = ()) -> list[int]:
    """Return so many distinct seeds, none of which is in `known`.

    They are the first values of h_i mod 10^9, i = 0, 1, ..., where h_i is the number that the first 8 bytes of the
    SHA-256 of the JSON list [*parts, i] write: below the seeds of `bench tune`. More seeds begin with fewer.
    """
    seeds: dict[int, None] = {}
    for i in count():
        if len(seeds) >= number:
            return list(seeds)
        digest = hashlib.sha256(json.dumps([*parts, i]).encode()).digest()
        if (seed := int.from_bytes(digest[:8]) % TUNING_SEED) not in known:
            seeds[seed] = None
    raise AssertionError
