"""`bench cancel`: end submitted jobs, and take in what they sent."""

from __future__ import annotations

from typing import Annotated

import typer

from harness import Bench, Result
from harness.application import jobs
from harness.contracts import check_known
from harness.system.text import count


def cancel(
    bench: Bench,
    job: Annotated[list[str] | None, typer.Argument(help="Jobs, as `bench status` names them; default: all.")] = None,
) -> Result:
    """End jobs that were submitted by a launcher. Their workers write checkpoints; the same command resumes the runs.

    Examples:
        bench cancel
        bench cancel 1234_5
    """
    from harness.runs import remote

    bench.ledger.check_version()
    found = jobs.under_way(bench)
    check_known("job", job or [], {each.name for each in found})
    ended = [each for each in found if not job or each.name in job]
    remote.cancel(ended)
    remote.follow(ended, bench.ledger, lambda _kind, _payload: None, cancelled=True)
    return Result(notes=[f"{count(len(ended), 'job')} ended"], changed=True)
