"""Errors with an exit code. Each message says what happened, where, and what to do about it."""

from __future__ import annotations

import errno
import os
import signal


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
NODE = "BENCH_NODE"
"""The environment variable by which workers of a job know their node and its temporary folder, as in n1:/tmp."""
_REMEDIES = {
    **dict.fromkeys(FULL, "free some space, or {}"),
    **dict.fromkeys((errno.ENOENT, errno.ESTALE), "it was deleted or moved, or cannot be made there; {}"),
    **dict.fromkeys((errno.EACCES, errno.EPERM), "make it accessible, or {}"),
    errno.EMFILE: "raise the limit of open files, `ulimit -n`",
}


def why(error: OSError) -> str:
    """Return the operating system's message about a file, and what to do."""
    node, _, folder = os.environ.get(NODE, "").partition(":")
    there = f"set TMPDIR on {node} to another folder than {folder}"
    elsewhere = there if node else "choose another folder by --results DIR or BENCH_RESULTS"
    return f"{error.strerror or error}; {_REMEDIES.get(error.errno or 0, '{}').format(elsewhere)}"


def exit_text(code: int | None, peak: int = 0) -> str:
    """Return a description of the exit code of a process that had at most `peak` bytes of memory (0: not known)."""
    if code != -signal.SIGKILL:
        return f"exit code {code}"
    had = f", and it had up to {peak / 2**30:.2f} GiB" if peak else ""
    return f"exit code {code}: it was killed, as the system does when memory runs out{had}"


def require(right: bool, where: str, what: str) -> None:  # noqa: FBT001 - the condition
    """Raise `UsageError` about a plugin's declaration at `where` unless it is right."""
    if not right:
        raise UsageError(f"{where}: {what}")
