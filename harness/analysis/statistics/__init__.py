"""Statistics over seeds: intervals, paired tests, ranks."""

from __future__ import annotations

from harness.system.faces import face

__all__, __getattr__, __dir__ = face(__name__, __file__)
