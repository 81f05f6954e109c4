"""Convert simple option values without pydantic, whose import takes a fifth of the time of a short command."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

NUMBER = re.compile("[0-9]{1,15}")


def convert_as_needed(command: Any, ctx: Any) -> None:
    """Let typer, which since 0.29 converts every value of a command with pydantic, convert only those that need it."""
    for one in (command, *getattr(command, "commands", {}).values()):
        for parameter in one.get_params(ctx):
            convert, described = (getattr(parameter, name, None) for name in ("get_runtime_param", "type_descriptor"))
            if convert and described:
                needed = _AsNeeded(convert, described.annotation)
                parameter.get_runtime_param = lambda needed=needed: needed


class _AsNeeded:
    """A converter of texts and of whole numbers within their limits. It leaves other values to typer."""

    def __init__(self, convert: Callable[[], Any], kind: Any) -> None:
        self.convert, self.kind = convert, kind

    def coerce(self, value: Any, *, param: Any, ctx: Any) -> Any:
        """Convert one value. Typer calls this for each value."""
        if self.kind == list[str] and not isinstance(value, str):
            return list(value or ())
        if type(value) is self.kind or (value is None and not param.multiple and param.nargs == 1):
            return value
        if self.kind is int and NUMBER.fullmatch(str(value)):
            number = int(value)
            if (param.min is None or number >= param.min) and (param.max is None or number <= param.max):
                return number
        return self.convert().coerce(value, param=param, ctx=ctx)
