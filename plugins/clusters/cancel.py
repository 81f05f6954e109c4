"""`bench cancel`: end submitted jobs, and take in what they sent."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import typer

from harness import Bench, BenchError, Result
from harness.contracts import check_known
from harness.system import count
from plugins.clusters.launcher import STOP
from plugins.clusters.submitted import by_launcher, submitted


def cancel(
    bench: Bench,
    job: Annotated[list[str] | None, typer.Argument(help="Jobs, as `bench status` names them; default: all.")] = None,
) -> Result:
    """End jobs that were submitted by a launcher. Their workers write checkpoints; the same command resumes the runs.

    Examples:
        bench cancel
        bench cancel 1234_5
    """
    from plugins.clusters.launching import follow

    bench.ledger.check_version()
    jobs = submitted(bench)
    check_known("job", job or [], {one.name for one in jobs})
    ended = [one for one in jobs if not job or one.name in job]
    for one in ended:
        with suppress(OSError):
            one.exchange.put(STOP, b"")
    for group in by_launcher(ended):
        with suppress(BenchError):
            group[0].launcher.cancel([one.name for one in group])
    follow(bench, ended, lambda _kind, _payload: None, cancelled=True)
    return Result(notes=[f"{count(len(ended), 'job')} ended"], changed=True)
