"""Errors with an exit code. Each message says what happened, where, and what to do about it."""

from __future__ import annotations


class BenchError(Exception):
    """Base of every error that a user may meet; the command line prints it without a traceback."""

    exit_code = 1


class RunError(BenchError):
    """A run failed: its row says so, and the others are untouched. Exit code 1."""


class UsageError(BenchError):
    """The command, a setting or a name is wrong; nothing was run. Exit code 2."""

    exit_code = 2


class PluginError(BenchError):
    """A plugin cannot be loaded or broke a contract. Exit code 3."""

    exit_code = 3


class DataError(BenchError):
    """A data set or a results folder is missing, altered or unusable. Exit code 4."""

    exit_code = 4
