"""Checks of what the hooks of plugins return; pluggy checks argument names, but no values."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from harness.contracts.hookspecs import Info, Method
from harness.contracts.plugin_errors import plugin_code
from harness.system.errors import PluginError

NAME = re.compile(r"[a-z][a-z0-9-]*")
LONGEST = 64
_WORD = r"[^\W\d]\w*"
TARGET = re.compile(rf"{_WORD}(\.{_WORD})*:{_WORD}")
PLAIN = (str, int, float, bool, type(None))


def name_problem(name: str) -> str:
    """Return what is wrong with the name of a plugin, a method or a suite, or "" if it is valid."""
    if NAME.fullmatch(name) and len(name) <= LONGEST:
        return ""
    return f"{name!r:.80} must match {NAME.pattern} and be at most {LONGEST} long"


def records(hook: str, answers: Any, kind: type) -> tuple[list[Any], list[str]]:
    """Return the valid members of a hook's answers, of class `kind` (Info, Method, Path), and all problems found."""
    found: list[Any] = []
    problems: list[str] = []
    for answer in answers:
        if not isinstance(answer, list):
            problems.append(f"{hook} must return a list of {kind.__name__}, not a {type(answer).__name__}")
            continue
        for i, member in enumerate(answer):
            try:
                with plugin_code(f"{hook}, number {i}"):
                    found.append(_record(f"{hook}, number {i}", member, kind))
            except PluginError as error:
                problems.append(str(error))
    return found, problems


def _record(where: str, member: Any, kind: type[Any]) -> Any:
    """Return the member as a plain record of its kind; raise `PluginError` if it is not valid."""
    if not isinstance(member, kind):
        raise PluginError(f"{where} is a {type(member).__name__}, not a {kind.__name__}")
    if kind is Path:
        return Path(str(member))
    texts = [
        name
        for name in ("name", "target", "sampler", "schedule", "summary", "law", "fill")
        if name in kind.__annotations__
    ]
    values = {name: getattr(member, name) for name in texts}
    for name, value in values.items():
        if type(value) is not str:
            raise PluginError(f"{where}: {name} is a {type(value).__name__}, not text")
    if type(member.baseline) is not bool:
        raise PluginError(f"{where}: baseline is a {type(member.baseline).__name__}, not true or false")
    name = values["name"]
    if problem := name_problem(name):
        raise PluginError(f"{where}: name {problem}")
    if kind is Info:
        if not TARGET.fullmatch(values["target"]):
            raise PluginError(f"{where}: {name!r}: target {values['target']!r:.80} is not 'package.module:Class'")
        if values["law"] and not TARGET.fullmatch(values["law"]):
            raise PluginError(f"{where}: {name!r}: law {values['law']!r:.80} is not 'package.module:Class'")
        return Info(**values, baseline=member.baseline)
    settings = _settings(f"{where}: {name!r}", member.settings)
    return Method(**values, settings=settings, baseline=member.baseline)


def _settings(where: str, settings: Any) -> dict[str, object]:
    if not isinstance(settings, dict):
        raise PluginError(f"{where}: settings is a {type(settings).__name__}, not a dict")
    for name, value in settings.items():
        if type(name) is not str or type(value) not in PLAIN:
            raise PluginError(f"{where}: settings: {name!r:.80} = {value!r:.80} is not a value by name")
    return dict(settings)
