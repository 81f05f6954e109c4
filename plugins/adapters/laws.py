"""What is claimed of the samplers that the adapters make, beyond what their classes declare."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from plugins.checking import SamplerLaw


class TorchOptimLaw(SamplerLaw):
    """The law of an optimiser: at T = 1, too, it follows torch. Corrections by its count of steps vanish in time."""

    clocks: ClassVar[Mapping[str, str]] = {"step": "corrections of running means for their start tend to 1"}
