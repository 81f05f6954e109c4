"""The law of contour-sgld: its weighted draws have the target; its count of steps sets how fast G is learned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from plugins.checking import SamplerLaw


class ContourLaw(SamplerLaw):
    """The weighted draws follow the target, whatever G is."""

    clocks: ClassVar[Mapping[str, str]] = {"t": "the rate at which G is learned falls as t^-0.8"}
