"""The public API for authors of tasks: densities, data sets, networks, observers, truths.

`tasks.pyi` lists the names; each is resolved when it is first used.
"""

from __future__ import annotations

from harness.system.faces import face

__all__, __getattr__, __dir__ = face(__name__, __file__)
