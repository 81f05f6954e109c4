"""The public API for authors of reports: rows, scores, tables and figures.

`reports.pyi` lists the names; each is resolved when it is first used.
"""

from __future__ import annotations

from harness.system.faces import face

__all__, __getattr__, __dir__ = face(__name__, __file__)
