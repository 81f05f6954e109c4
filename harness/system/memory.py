"""The memory of this process: its limit, and what becomes of what is freed."""

from __future__ import annotations

import ctypes
import resource
from contextlib import suppress

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
_MOST = 2**31 - 1
"""Parameters of glibc's `mallopt`, and the most that they can be."""


def memory_limit(need: int = 0) -> str:
    """What to do if this process's address space is limited (`ulimit -v`): libraries abort where there is too little.

    "" if it is not (to less than `need` GiB if that is given).
    """
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY or 0 < need * 2**30 <= limit:
        return ""
    enough = f" to {need} GiB or more" if need else ""
    return f"its address space is limited to {limit / 2**30:.1f} GiB: raise the limit (`ulimit -v`){enough}"


def keep_freed() -> None:
    """Keep up to 2 GiB of freed memory for what is allocated next, where the C library is glibc.

    Else the arrays of a block are mapped anew for each block, and to map a page costs more than to write to it.
    """
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_MAX, 0)
        mallopt(_TRIM_THRESHOLD, _MOST)
