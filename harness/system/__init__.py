"""Access to the machine: errors, atomic file writes, kernel locks, text.

`__init__.pyi` lists what features use of it beyond the public names.
"""

from __future__ import annotations

from harness.system.faces import face

__all__, __getattr__, __dir__ = face(__name__, __file__)
