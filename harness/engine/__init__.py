"""The execution of runs: the loop that advances chains, the modes of execution, and the exact law of a linear step.

`__init__.pyi` lists what features and law files use of it.
"""

from __future__ import annotations

from harness.system.faces import face

__all__, __getattr__, __dir__ = face(__name__, __file__)
