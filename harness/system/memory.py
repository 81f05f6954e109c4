"""The memory of this process: its limit, and the reuse of freed memory."""

from __future__ import annotations

import ctypes
import re
import resource
from contextlib import suppress
from pathlib import Path

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
_MOST = 2**31 - 1
"""Parameters of glibc's `mallopt`, and their largest value."""


def memory_limit(need: int = 0) -> str:
    """Return what to do about a limit of this process's address space (`ulimit -v`), beyond which libraries abort.

    Returns "" if there is no limit (below `need` GiB, if that is given).
    """
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY or 0 < need * 2**30 <= limit:
        return ""
    enough = f" to {need} GiB or more" if need else ""
    return f"its address space is limited to {limit / 2**30:.1f} GiB: raise the limit (`ulimit -v`){enough}"


def peak_memory(pid: int | None) -> int:
    """Return the most memory in bytes that a running process has had; 0 if it is not known."""
    with suppress(OSError, TypeError):  # a process that has ended has no such line
        return 1024 * int(re.search(r"VmHWM:\s*(\d+)", Path(f"/proc/{pid}/status").read_text("utf-8"))[1])  # type: ignore[index]
    return 0


def stay_within_free() -> None:
    """Limit the data of this process to the machine's free memory: more is then an error here, and not elsewhere.

    For code with a stranger's settings, which may ask for any amount.
    """
    with suppress(OSError):  # where there is no /proc
        free = re.search(r"MemAvailable:\s*(\d+) kB", Path("/proc/meminfo").read_text(encoding="ascii"))
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        if free and (hard == resource.RLIM_INFINITY or 1024 * int(free[1]) < hard):
            resource.setrlimit(resource.RLIMIT_DATA, (1024 * int(free[1]), hard))


def keep_freed() -> None:
    """Keep up to 2 GiB of freed memory for later allocations, if the C library is glibc.

    Otherwise the arrays of a block are mapped anew for each block, and mapping a page costs more than writing to it.
    """
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_MAX, 0)
        mallopt(_TRIM_THRESHOLD, _MOST)
