"""The law of adam: its count of steps corrects means for their start, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from plugins.checking import SamplerLaw


class AdamLaw(SamplerLaw):
    """An optimiser: it equals its rule at T = 1; the bias correction is 1 after some thousand steps."""

    clocks: ClassVar[Mapping[str, str]] = {"t": "its bias correction 1 - beta^t tends to 1"}
