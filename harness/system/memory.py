"""Whether the address space of this process is limited (`ulimit -v`): libraries abort where there is too little."""

from __future__ import annotations

import resource


def memory_limit(need: int = 0) -> str:
    """What to do if the address space is limited (to less than `need` GiB if that is given); else ""."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY or 0 < need * 2**30 <= limit:
        return ""
    enough = f" to {need} GiB or more" if need else ""
    return f"its address space is limited to {limit / 2**30:.1f} GiB: raise the limit (`ulimit -v`){enough}"
