"""A wall clock that jumps: Python's is off by the seconds in the file that CRASH_CLOCK names, read at every look.

Python imports a module of this name at start where it is on the path; only the fault campaign puts it there.
Monotonic clocks are left alone, as a kernel leaves them when somebody sets the time. Only the project's own modules get
another `datetime`: compiled modules of others, such as Ray's, crash if the class is replaced.
"""

import builtins
import datetime as dt
import os
import time
from pathlib import Path
from types import ModuleType

_time, _time_ns, _gmtime, _localtime, _real = time.time, time.time_ns, time.gmtime, time.localtime, dt.datetime


def _off():
    try:
        return int(Path(os.environ["CRASH_CLOCK"]).read_text(encoding="ascii") or 0)
    except (OSError, KeyError, ValueError):
        return 0


class _Kind(type(_real)):
    def __instancecheck__(cls, other):
        return isinstance(other, _real)

    def __subclasscheck__(cls, other):
        return issubclass(other, _real)


class _Datetime(_real, metaclass=_Kind):
    __slots__ = ()  # compiled modules look at its size

    @classmethod
    def now(cls, tz=None):
        return _real.now(tz) + dt.timedelta(seconds=_off())

    @classmethod
    def utcnow(cls):
        return _real.now(dt.UTC).replace(tzinfo=None) + dt.timedelta(seconds=_off())


def _shifted(function):
    return lambda seconds=None: function(time.time() if seconds is None else seconds)


time.time = lambda: _time() + _off()
time.time_ns = lambda: _time_ns() + _off() * 10**9
time.gmtime, time.localtime = _shifted(_gmtime), _shifted(_localtime)

PROJECT = {"harness", "plugins", "tasks", "reports"}
_changed, _import = ModuleType("datetime"), builtins.__import__
vars(_changed).update(vars(dt), datetime=_Datetime)


def _importing(name, globals=None, *more, **named):  # noqa: A002 - the names of `__import__`
    if name == "datetime" and str((globals or {}).get("__name__")).partition(".")[0] in PROJECT:
        return _changed
    return _import(name, globals, *more, **named)


builtins.__import__ = _importing
