"""Errors with an exit code. Each message says what happened, where, and what to do about it."""

from __future__ import annotations

import errno


class BenchError(Exception):
    """Base of every error that a user may see; the command line prints it without a traceback."""

    exit_code = 1


class RunError(BenchError):
    """A run failed; other runs are not affected. Exit code 1."""


class UsageError(BenchError):
    """The command, a setting or a name is wrong; nothing was run. Exit code 2."""

    exit_code = 2


class PluginError(BenchError):
    """A plugin cannot be loaded or broke a contract. Exit code 3."""

    exit_code = 3


class DataError(BenchError):
    """A data set or a results folder is missing, altered or unusable. Exit code 4."""

    exit_code = 4


FULL = (errno.ENOSPC, errno.EDQUOT)
"""Error numbers of a full disk or an exceeded quota."""
_ELSEWHERE = "choose another folder by --results DIR or BENCH_RESULTS"
_REMEDIES = {
    **dict.fromkeys(FULL, f"free some space, or {_ELSEWHERE}"),
    **dict.fromkeys((errno.ENOENT, errno.ESTALE), f"it was deleted or moved, or cannot be made there; {_ELSEWHERE}"),
    **dict.fromkeys((errno.EACCES, errno.EPERM), f"make it accessible, or {_ELSEWHERE}"),
    errno.EMFILE: "raise the limit of open files, `ulimit -n`",
}


def why(error: OSError) -> str:
    """Return the operating system's message about a file, and what to do."""
    return f"{error.strerror or error}; {_REMEDIES.get(error.errno or 0, _ELSEWHERE)}"


def require(right: bool, where: str, what: str) -> None:  # noqa: FBT001 - the condition
    """Raise `UsageError` about a plugin's declaration at `where` unless it is right."""
    if not right:
        raise UsageError(f"{where}: {what}")
