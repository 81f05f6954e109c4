"""The public API of sgmcmc-bench: everything that a plugin author needs.

`__init__.pyi` lists the names. Importing this package imports neither torch nor any plugin; a name is resolved when it
is first used.
"""

from __future__ import annotations

from harness.system.faces import face

__all__, __getattr__, __dir__ = face(__name__, __file__)
