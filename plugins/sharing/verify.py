"""`bench verify`: determine how far results from others can be trusted, and add them to a leaderboard."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness import Bench, Result, UsageError, options
from harness.contracts import user_files
from harness.reporting import table
from harness.reports import Level, Store
from harness.results import Verification, ranges
from harness.system import count, harmless

if TYPE_CHECKING:
    from plugins.sharing.verifying import Verdict

COLUMNS = ["method", "task", "protocol", "group", "seeds", "verified", "how"]


def verify(
    bench: Bench,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A results folder, or an exported one.")],
    into: Annotated[
        Path | None, typer.Option("--into", help="Add what is not refused to this exported folder, with its level.")
    ] = None,
    salt: Annotated[
        str,
        typer.Option("--salt", help="What the sender could not know, such as the merge commit; default: random."),
    ] = "",
    replays: Annotated[
        int, typer.Option("--replays", min=0, max=1000, help="Sent runs of each row to repeat; 0: nothing is run.")
    ] = 1,
    timeout: Annotated[
        str,
        typer.Option("--timeout", help="Time limit of a replay, and of a row's fresh runs together: 2h, 30m, 90s, 90."),
    ] = "1h",
    execute: Annotated[
        bool, typer.Option("--execute", help="Execute samplers that the folder contains. It is a stranger's code.")
    ] = False,
) -> Result:
    """Check a folder of results: keys, checksums, rows; score draws again, repeat runs, and run rows on fresh seeds.

    Each row becomes reported, rescored, replayed or run here; leaderboards rank what was run here. The runs to repeat
    are chosen by SHA-256(salt:run key), and in the same environment their bits must be equal: the row is replayed. Then
    the row runs on five seeds that follow from the salt and the row. These runs are its rank. The row is refused if the
    sent ones differ from them (t test at 1 %, by Holm over the row's numbers). Nothing in the folder is executed
    without --execute. Exit code 1 if a row is refused, 4 if a file is damaged or altered.

    Examples:
        bench verify ../theirs/bench-results
        bench verify submissions/their-sampler --into board --salt 4f2a9c1
        bench verify submissions/their-sampler --replays 5 --execute
    """
    from plugins.sharing import submitted
    from plugins.sharing.exporting import export
    from plugins.sharing.verifying import Verifier, laws_of, rows_of

    limit = options.duration(timeout, "--timeout")
    if into is not None and into.resolve() == folder.resolve():
        raise UsageError(f"--into {into} is the folder that is verified")
    salt = salt or secrets.token_hex(8)
    with ExitStack() as stack:
        submission = stack.enter_context(submitted.opened(folder))
        user_files.FOLDERS.append(folder / user_files.FOLDER)
        if into is not None:
            submitted.refuse_known(submission, into)
        files, notes = bench.plugins, [f"replayed runs and fresh seeds follow from the salt {salt}"] if replays else []
        notes += submission.notes
        if execute:
            aside = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-verify-code-")))
            code, more = submitted.code_of(submission, aside)
            files, notes = (*files, *code), [*notes, *more]
            bench.say(f"note: {folder} contains {count(len(code), 'module')}, whose code is executed now")
        theirs = Bench(bench.results, plugins=files)
        job = replace(theirs.job([]), timeout=limit)
        here = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-verify-runs-")))
        verifier, rows, verdicts = Verifier(submission, job, theirs.registry, here), rows_of(submission), []
        for i, row in enumerate(rows):
            bench.say(f"{i + 1} of {len(rows)}: {row[0]['method']} on {row[0]['task']}")
            verdicts.append(verifier.verdict(row, salt, replays))
        if into is not None:
            kept = [one for one in verdicts if not one.refused]
            lawful = laws_of(kept, submission, theirs)
            levels = {k: replace(v, laws=lawful.get(k, "")) for one in kept for k, v in one.records(salt).items()}
            fresh = {attempt: key for one in kept for attempt, key in one.fresh.items()}

            def sent() -> dict[str, Verification]:
                submitted.refuse_known(submission, into, {attempt: Level(one.level) for attempt, one in levels.items()})
                return {a: one for a, one in levels.items() if a not in submission.refused and a not in fresh}

            def run_here() -> dict[str, Verification]:
                there = submitted.run_here(into)
                return {attempt: levels[attempt] for attempt, key in fresh.items() if key not in there}

            exports = [export(submission.store, into, sent)]
            if fresh:
                store = Store(here)
                store.read_runs()
                exports.append(export(store, into, run_here))
            notes += [
                f"{count(new, 'attempt')} taken into {into}: {written} shards written, {kept} left"
                for new, written, kept in exports
            ]
    left = [(one, [row for row in one.attempts if row["attempt"] not in submission.refused]) for one in verdicts]
    answer = _answer(
        [replace(one, attempts=rows or one.attempts) for one, rows in left if rows or one.fresh],
        submission.refused,
        notes,
    )
    return replace(answer, changed=into is not None)


def _answer(verdicts: Sequence[Verdict], refused: Mapping[str, str], notes: list[str]) -> Result:
    rows = [
        {
            **{name: one.attempts[0][name] for name in ("method", "task", "protocol")},
            "group": one.attempts[0]["group_key"], "seeds": ranges(row["seed"] for row in one.attempts),
            "verified": "refused" if one.refused else str(one.reached), "how": one.how,
            "attempts": [row["attempt"] for row in one.attempts],
        }
        for one in verdicts
    ]  # fmt: skip
    damaged = [{"file": harmless(name), "refused": harmless(why)} for name, why in sorted(refused.items())]
    shown = [table([{**row, "group": row["group"][:8]} for row in rows], COLUMNS)] if rows else []
    shown += [table(damaged, ["file", "refused"])] if damaged else []
    wrong = any(one.refused for one in verdicts)
    return Result(shown, [*rows, *damaged], notes=notes, exit_code=4 if damaged else int(wrong))
