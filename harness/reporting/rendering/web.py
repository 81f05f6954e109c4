"""HTML from the templates beside this file. Inserted values are escaped, and control characters are removed.

Only the output of the templates' own macros is markup, by the filter `own`. Markup from a plugin is treated as text.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.reporting.tables import Table
from harness.system.text import plain

if TYPE_CHECKING:
    from jinja2 import Environment

_BREAK = re.compile(r"([_=]|\.(?=[a-z]))")
"""After what a long name may go on in the next line, as browsers break it nowhere, or within a word."""


def render(tables: Sequence[Table | str]) -> str:
    """Return a fragment of a page: a <table> with its caption for each table, and its notes as a list."""
    return environment().get_template("fragment.html").render(tables=tables)


@functools.cache
def environment(*folders: Path) -> Environment:
    """Return the environment of the templates in these folders and in the folder beside this file."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup, escape

    class Own(Markup):
        """The output of a macro of these templates."""

    def harmless(value: Any) -> Any:
        if isinstance(value, Own):
            return value
        return plain(str(value)) if isinstance(value, str) or hasattr(value, "__html__") else value

    templates = Environment(
        loader=FileSystemLoader([*folders, Path(__file__).parent / "templates"]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=harmless,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters["own"] = Own
    templates.filters["breakable"] = lambda name: Own(_BREAK.sub(r"\1<wbr>", str(escape(plain(str(name))))))
    return templates
