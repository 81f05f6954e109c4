"""Which mode a run is executed in: decided at the plan, written into the RunSpec, part of the key. No torch here."""

from __future__ import annotations

import os
import shutil
from importlib.metadata import PackageNotFoundError, version

from packaging.version import Version

from harness.errors import UsageError

COMPILED_FROM = 200_000
"""Steps of a run from which it is compiled unless a setting says otherwise: making the code costs seconds, as many as
some 100,000 plain steps."""

LARGE = 100_000
"""Parameters of a chain from which a compiled step is one update at a time, and no scan over steps."""

LARGE_COMPILED_FROM = 3e9
"""Parameters times steps from which such a run is compiled: a plain update costs some 10 ns a parameter more."""

SCAN_FROM = Version("2.11")
"""The first torch known to compile a scan."""

CPP_WRAPPER_FROM = Version("2.15")
"""The first torch known to do so without Python in the inner loop."""

COMPILERS = ("g++", "c++", "clang++")


def choose(asked: str | None, steps: int, device: str = "cpu", dim: int = 1) -> str:
    """The mode of a run of `steps` steps; `UsageError` where one is asked for that this machine lacks the means for.

    On a GPU nothing is compiled unless asked for: it was not tried there yet.
    """
    if asked is None:
        worth = steps * dim >= LARGE_COMPILED_FROM if dim >= LARGE else steps >= COMPILED_FROM
        return "compiled" if worth and device == "cpu" and lack() is None else "plain"
    missing = lack() if asked == "compiled" else None
    if missing:
        raise UsageError(f"run.compile = compiled: {missing}; install it, or leave the setting out")
    return asked


def lack() -> str | None:
    """What compiling lacks on this machine."""
    if torch_version() < SCAN_FROM:
        return f"it needs torch {SCAN_FROM} or later, and this is {torch_version()}"
    if not any(map(shutil.which, filter(None, (os.environ.get("CXX"), *COMPILERS)))):
        return f"it needs a C++ compiler ({', '.join(COMPILERS)}), and there is none on the PATH"
    return None


def torch_version() -> Version:
    """The version of torch that is installed, found without importing it."""
    try:
        return Version(Version(version("torch")).public)
    except PackageNotFoundError:
        return Version("0")
