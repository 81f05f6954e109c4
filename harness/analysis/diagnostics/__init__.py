"""Pure functions on arrays: float64 NumPy in and out, no torch, and no state except in accumulators."""

from __future__ import annotations

from harness.system.faces import face

__all__, __getattr__, __dir__ = face(__name__, __file__)
