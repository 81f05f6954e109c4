"""What the fault campaign changes within every process of a command: clock and kernel locks; and a watch on writes.

Python imports a module of this name at start where it is on the path; only the fault campaign puts it there.

CRASH_CLOCK   a file with seconds, by which Python's wall clock is off; it is read at every look. Monotonic clocks are
              left alone, as a kernel leaves them when somebody sets the time. Only the project's own modules get
              another `datetime`: compiled modules of others, such as Ray's, crash if the class is replaced.
CRASH_KERNEL  an identity of the kernel, whose locks then reach no other command
CRASH_WRITES  a file that gets a line for each change below `runs/` that neither `publish` nor a growing attempt makes
"""

import builtins
import datetime as dt
import fcntl
import os
import sys
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


def _watch(log):
    """Record who changes a file or folder below `runs/` without being allowed to."""
    ours = (
        "/harness/results/ledger/attempt.py", "/harness/results/ledger/commit.py", "/harness/system/locks.py",
        "/plugins/upkeep/garbage.py",
    )  # fmt: skip
    changes = {f"os.{name}" for name in ("rename", "remove", "mkdir", "rmdir", "link", "symlink", "truncate")}
    runs = f"{os.environ['BENCH_RESULTS']}/runs/"

    def look(event, arguments):
        if event == "open":
            written = isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        else:
            written = event in changes
        if not written or not any(str(part).startswith(runs) for part in arguments if isinstance(part, str | Path)):
            return
        frame, stack = sys._getframe(1), []
        while frame is not None:
            code = frame.f_code
            if code.co_filename.endswith(ours):
                return
            if "/harness/" in code.co_filename or "/plugins/" in code.co_filename:
                stack.append(f"{Path(code.co_filename).name}:{code.co_name}")
            frame = frame.f_back
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, f"{event} {arguments[0]} {stack[:4]}\n".encode())
        os.close(descriptor)

    sys.addaudithook(look)


def _reach_nobody():
    """Make every kernel lock free, and the kernel another one."""
    read_text = Path.read_text

    def text_of(self, *arguments, **more):
        kernel = str(self) == "/proc/sys/kernel/random/boot_id"
        return os.environ["CRASH_KERNEL"] if kernel else read_text(self, *arguments, **more)

    Path.read_text, fcntl.flock = text_of, lambda *_: None


if "CRASH_WRITES" in os.environ:
    _watch(os.environ["CRASH_WRITES"])
if "CRASH_KERNEL" in os.environ:
    _reach_nobody()
if "CRASH_CLOCK" in os.environ:
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
