"""A results folder with the plugins that are used on it: what every verb is given."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.contracts import user_files
from harness.contracts.registry import Registry, registry
from harness.system.errors import UsageError
from harness.system.files import user_path
from harness.system.streams import say

if TYPE_CHECKING:
    from harness.results.ledger.ledger import Ledger
    from harness.results.store import Store

VARIABLE, DEFAULT = "BENCH_RESULTS", "bench-results"
"""The environment variable that names the results folder, and the folder if neither it nor the caller does."""


@dataclass(frozen=True)
class Launching:
    """The launcher that brings runs to other machines, its settings as KEY=VALUE, and whether to wait for the jobs."""

    launcher: str
    settings: tuple[str, ...] = ()
    detach: bool = False


def results_folder(named: str | Path | None) -> Path:
    """Return the absolute path of the results folder: the one named, else that of `BENCH_RESULTS`, else the default.

    Raises `UsageError` for an address.
    """
    name = str(named or os.environ.get(VARIABLE) or DEFAULT)
    if "://" in name:
        raise UsageError(f"the results folder {name!r:.200} is an address; download the folder first")
    return user_path(name).absolute()


class Application:
    """A results folder, the plugin files that are used beside the installed plugins, and where messages go.

    results    the folder, an absolute path
    plugins    the files, as for `bench --plugin FILE`
    launching  how runs are brought to other machines; None for worker processes of this one
    debug      whether the tracebacks of workers are shown
    form       the format in which a command prints its result; "" if it was not given
    say        is called with each message that is not a result
    """

    def __init__(
        self,
        results: str | Path | None = None,
        *,
        plugins: Sequence[str | Path] = (),
        launching: Launching | None = None,
        debug: bool = False,
        form: str = "",
        say: Callable[[str], None] = say,
    ) -> None:
        self.results = results_folder(results)
        self.plugins = tuple(str(user_path(file)) for file in plugins)
        self.launching = launching
        self.debug = debug
        self.form = form
        self.say = say
        copies = self.results / user_files.FOLDER
        user_files.FOLDERS[:] = [copies, *(folder for folder in user_files.FOLDERS if folder != copies)]

    def __reduce__(self) -> Any:
        """Make it again in another process, which then finds the same files."""
        how = {name: getattr(self, name) for name in ("plugins", "launching", "debug", "form", "say")}
        return functools.partial(type(self), **how), (self.results,)

    @property
    def registry(self) -> Registry:
        """All plugins: the installed ones and those of the files."""
        return registry(self.plugins)

    @functools.cached_property
    def ledger(self) -> Ledger:
        """The attempts in the results folder."""
        from harness.results.ledger.ledger import Ledger  # a third of the time of `bench --help`

        return Ledger(self.results)

    def unread_store(self) -> Store:
        """Return the store of the folder, which may be of a form that a plugin reads. It still has to be refreshed."""
        from harness.results.store import Store

        stores = (store_of(self.results) for store_of in self.registry.facts("store"))
        return next(filter(None, stores), None) or Store(self.results)

    def store(self) -> Store:
        """Return the database of the results folder, updated with new runs. Problems in single runs are messages."""
        self.ledger.check_version()
        opened = self.unread_store()
        for note in opened.refresh():
            self.say(f"note: {note}")
        return opened
