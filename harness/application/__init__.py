"""The application: planning, running and reading results, for the command line, notebooks, agents and verbs alike.

`__init__.pyi` lists what features use of it beyond the public names.
"""

from __future__ import annotations

from harness.system.faces import face

__all__, __getattr__, __dir__ = face(__name__, __file__)
