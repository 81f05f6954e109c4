"""Hyperparameters as dataclass fields that state their range, meaning and source.

Samplers, schedules and tasks are frozen dataclasses deriving from `Configurable`. Each field is declared by

    friction: float = param(0.1, "(0, 1]", "alpha, one minus the momentum", source="Chen et al. 2014, eq. 15")

and is checked when the object is made, so an object that exists is valid.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import math
import types
import typing
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from harness.contracts import user_files
from harness.system.errors import UsageError

_MISSING = dataclasses.MISSING
LONGEST_NAME = 200
LONGEST_VALUE = 1000
"""Largest numbers of characters in a name and in a value; plugins' names have at most 64, and a value may be a path."""
WHOLE = 2**53
"""Integers below this are exact as floats too."""
PLAIN = ("bool", "int", "float", "str", "file")
"""The types of the settings of samplers and schedules."""
RELATIVE = " x"
"""The end of a search interval that is relative to the setting's value without a search."""


def param(
    default: Any = _MISSING,
    allowed: str = "",
    meaning: str = "",
    *,
    unit: int = 0,
    source: str = "",
    choices: tuple[str, ...] = (),
    tune: str = "",
    later: bool = False,
    kind: str = "",
) -> Any:
    """Return a dataclass field with its allowed interval ("(0, 1]", "[1, inf)"), its meaning and its default's source.

    unit   for a sampler's hyperparameter: the power of U in it; 1 for the size of a gradient, 2 for its variance
    tune   the interval that `bench tune` searches: "[0.01, 1]", or "[1e-3, 30] x" times the value without a search
    kind   "file" for a text that names a file: run keys and records have the SHA-256 of its content, not the path
    later  True for a field added after runs exist: run keys omit it at its default, so that earlier keys stay valid
    """
    limits, search = (_interval(text) if text else None for text in (allowed, tune.removesuffix(RELATIVE)))
    if limits and search and not tune.endswith(RELATIVE) and not limits[0] <= search[0] <= search[1] <= limits[1]:
        raise ValueError(f"tune = {tune!r} is not within allowed = {allowed!r}")
    metadata = {
        "allowed": allowed, "meaning": meaning, "unit": unit, "source": source, "choices": tuple(choices), "tune": tune,
        "later": later, "kind": kind,
    }  # fmt: skip
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Field:
    """One hyperparameter as the command line and the plan use it."""

    name: str
    type: str
    optional: bool
    default: Any
    required: bool
    allowed: str = ""
    choices: tuple[str, ...] = ()
    meaning: str = ""
    source: str = ""
    tune: str = ""
    later: bool = False

    @property
    def relative(self) -> bool:
        """Whether the interval for `tune` is in units of the value without a search, as a step size's is."""
        return self.tune.endswith(RELATIVE)

    def search_range(self, value: Any) -> tuple[float, float] | None:
        """Return the interval that `tune` declares for a setting with this value, or None if it declares none."""
        if not self.tune or value is None:
            return None
        low, high = _interval(self.tune.removesuffix(RELATIVE))
        return (low * value, high * value) if self.relative else (low, high)


@dataclass(frozen=True, kw_only=True)
class Configurable:
    """A frozen dataclass whose fields are checked against their declared types and ranges.

    `free_text` says whether a text may be any; otherwise it has declared choices, or is a file whose content counts.
    """

    free_text: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for spec in schema(type(self)):
            value = check(spec, getattr(self, spec.name), where=type(self).__name__)
            value = user_files.locate(value) if spec.type == "file" and value is not None else value
            object.__setattr__(self, spec.name, value)


def schema(cls: type) -> tuple[Field, ...]:
    """Return the hyperparameters that a `Configurable` class declares, in order; `TypeError` for a wrong one."""
    return _schema(cls)


@functools.cache
def _schema(cls: type) -> tuple[Field, ...]:
    hints = typing.get_type_hints(cls)
    for f in fields(cls):
        for base in cls.__mro__:
            if isinstance(vars(base).get(f.name), (types.FunctionType, property)):
                raise TypeError(f"the setting {f.name!r} hides {base.__name__}.{f.name}; give it another name")
    declared = tuple(_field(f, hints[f.name]) for f in fields(cls) if f.init)
    restricted = any(vars(base).get("free_text") is False for base in cls.__mro__)
    for spec in declared if restricted else ():
        if spec.type not in PLAIN or (spec.type == "str" and not spec.choices):
            what = "a text without choices" if spec.type == "str" else f"of the type {spec.type}"
            raise TypeError(
                f"{cls.__name__}.{spec.name} is {what}; settings of samplers and schedules are bool, int, float, a "
                "file, or a text declared by param(..., choices=(...))"
            )
    return declared


def _field(f: dataclasses.Field[Any], hint: Any) -> Field:
    optional = False
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        members = [m for m in typing.get_args(hint) if m is not types.NoneType]
        optional = len(members) < len(typing.get_args(hint))
        hint = members[0]
    required = f.default is _MISSING and f.default_factory is _MISSING
    kind = getattr(hint, "__name__", str(hint))
    if (special := f.metadata.get("kind")) and (special, kind) != ("file", "str"):
        raise TypeError(f"{f.name}: the kind of a setting is 'file' and its type then str, not {special!r} and {kind}")
    kind = special or kind
    if f.metadata.get("allowed") and kind not in {"int", "float"}:
        raise TypeError(f"{f.name}: an interval is of numbers, and this is {kind}")
    return Field(
        name=f.name,
        type=kind,
        optional=optional,
        default=None if required else f.default,
        required=required,
        **{name: value for name, value in f.metadata.items() if name in Field.__dataclass_fields__},
    )


def check(spec: Field, value: Any, where: str) -> Any:
    """Return `value` converted to the field's type; raise `UsageError` if its type, range or choice is wrong.

    The path of a file becomes the checksum of its content.
    """
    label = f"{where}.{spec.name}"
    if value is None or (spec.optional and value == "none"):
        if spec.optional:
            return None
        raise UsageError(f"{label} needs a value ({describe(spec)})")
    value = _convert(spec, value, label)
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"{label} = {value} is not finite")
    if spec.type == "file":
        value = user_files.identify(value, label)
    if spec.choices and value not in spec.choices:
        raise UsageError(f"{label} = {value!r:.80} is not one of {', '.join(spec.choices)}")
    if spec.allowed and not _inside(value, spec.allowed):
        raise UsageError(f"{label} = {value!r:.80} is outside {spec.allowed}")
    return value


def describe(spec: Field) -> str:
    """Return a short description of what a field accepts, for messages."""
    kinds = {"float": "a number", "int": "an integer", "bool": "true or false", "str": "text", "file": "a file's path"}
    kind = kinds.get(spec.type, spec.type)
    limits = f" in {spec.allowed}" if spec.allowed else ""
    options = f", one of {', '.join(spec.choices)}" if spec.choices else ""
    return f"{kind}{limits}{options}"


def _convert(spec: Field, value: Any, label: str) -> Any:
    if isinstance(value, str) and len(value) > LONGEST_VALUE:
        raise UsageError(
            f"{label} = {value!r:.80}... has {len(value):,} characters; at most {LONGEST_VALUE:,} are allowed"
        )
    convert = _CONVERTERS.get(spec.type)
    converted = convert(value) if convert else value
    if converted is None:
        number = _to_float(value) if spec.type == "int" else None
        if number is not None and abs(number) >= WHOLE:
            raise UsageError(f"{label} = {value!r:.80} is not between -2^53 and 2^53, {describe(spec)}")
        raise UsageError(f"{label} = {value!r:.80} is not {describe(spec)}")
    return converted


def _to_bool(value: Any) -> bool | None:
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    return value if isinstance(value, bool) else words.get(str(value).lower())


def _to_float(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        return float(value) + 0.0  # minus zero becomes zero, which is the same run
    except (TypeError, ValueError, OverflowError) as error:
        return math.inf if isinstance(error, OverflowError) else None


def _to_int(value: Any) -> int | None:
    number = _to_float(value)
    if number is None or not math.isfinite(number) or abs(number) >= WHOLE or number != int(number):
        return None
    return int(number)


def _to_str(value: Any) -> str | None:
    """Return printable text as a plain str, or None: undecodable bytes and control characters are not accepted."""
    return str.__str__(value) if isinstance(value, str) and str.isprintable(value) else None


_CONVERTERS = {"bool": _to_bool, "int": _to_int, "float": _to_float, "str": _to_str, "file": _to_str}


def _interval(text: str) -> tuple[float, float]:
    """Return the ends of "[low, high)"; raise `ValueError` if the text is not an interval."""
    low, comma, high = text[1:-1].partition(",")
    if text[0] not in "([" or text[-1] not in ")]" or not comma or not float(low) <= float(high):
        raise ValueError(f"allowed = {text!r} is not an interval, as in '(0, 1]' or '[1, inf)'")
    return float(low), float(high)


def _inside(value: float, interval: str) -> bool:
    low, high = _interval(interval)
    above = value > low if interval[0] == "(" else value >= low
    below = value < high if interval[-1] == ")" else value <= high
    return above and below


def of_part(settings: typing.Mapping[str, Any], part: str) -> dict[str, Any]:
    """Return the settings of one part, such as "task", by field name; all are by dotted name, such as "task.width"."""
    prefix = f"{part}."
    return {name.removeprefix(prefix): value for name, value in settings.items() if name.startswith(prefix)}


def spelled(name: str, known: typing.Iterable[str]) -> str:
    """Return the known name that differs from this one only in case, hyphens and underscores; otherwise this one."""
    names = {*known}
    alike = [other for other in names if letters(other) == letters(name)] if name not in names else []
    return alike[0] if len(alike) == 1 else name


def letters(name: str) -> str:
    """Return a name without what does not distinguish names: case, hyphens and underscores."""
    return name.replace("-", "").replace("_", "").casefold()


def unknown(what: str, name: str, known: typing.Iterable[str]) -> UsageError:
    """Return the error about a name that nothing has, with near matches."""
    return UsageError(f"{what} {name!r:.80}{suggestions(name.rpartition(':')[2], known)}")


def check_known(
    kind: str, names: typing.Iterable[str], known: typing.Collection[str], error: typing.Any = unknown
) -> list[str]:
    """Return the names as they are spelled among the known ones; raise the error about an unknown one."""
    named = [spelled(name, known) for name in names]
    for name in named:
        if name not in known:
            raise error(f"unknown {kind}", name, known)
    return named


def suggestions(name: str, known: typing.Iterable[str]) -> str:
    """Return a hint for a misspelt name: "; did you mean a, b?" or the list of existing names."""
    if len(name) > LONGEST_NAME:
        return f"; it has {len(name):,} characters, and no name has more than {LONGEST_NAME}"
    names = sorted(known)
    package, dot, last = name.rpartition(".")
    beside = [other for other in names if other.rpartition(".")[0] == package] if dot else names
    ends = {other.rpartition(".")[2]: other for other in beside}
    close = [ends[end] for end in difflib.get_close_matches(last, ends, n=3, cutoff=0.5)]
    close = close or difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if close:
        return f"; did you mean {', '.join(close)}?"
    return f"; there are: {', '.join(names)}" if names else "; there are none"
