"""The start of a block of runs in a worker: build the loop, check the code, and open the attempts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.contracts.randomness import Streams
from harness.contracts.registry import registry
from harness.engine.loop import Loop
from harness.engine.stepping.execution_mode import LARGE
from harness.engine.trial import try_observer
from harness.results.environment import deciding, differences, is_whole
from harness.results.ledger.attempt import CHECKPOINTS, DRAWN, Attempt
from harness.results.ledger.ledger import Ledger
from harness.results.records import RESUMABLE
from harness.results.spec import RunSpec, recorded_key
from harness.runs import source, truths, warm_start
from harness.runs.failure import setting_up
from harness.runs.job import Job
from harness.runs.plugin_metadata import Parts, instance, parts
from harness.system.errors import RunError
from harness.system.files import SEAL, read_json

if TYPE_CHECKING:
    from harness.contracts.task import Task

DRAW_BYTES = 64 * 2**20
"""Most bytes of draws that a run stores unless all are asked for. Longer runs store every n-th draw."""

TRUTH = "truth"
"""Name of a checkpoint's array with the checksum of the stored truth that its draws were compared with."""

MOST, MOST_CHANGES = 40, 3
"""Most characters of a value in a message about another environment, and most values."""

Arrays = dict[str, np.ndarray]


def build(specs: Sequence[RunSpec], job: Job) -> Loop:
    """Build the loop of runs that differ only in their seed."""
    spec = specs[0]
    with setting_up(spec):
        task = truths.task_with_truth(job.results, spec)
        run = parts(spec, task.steps_per_epoch())
        warm = warm_start.stage(spec, task, job.plugins)
        if spec.moved:
            task = registry().built_in("moved")(task, [run.sampler, *(warm or ())[:1]])
        loop = Loop(
            task,
            run.sampler,
            run.trajectory,
            [Streams(s.seed, chain, (spec.task.name,), s.batch_order) for s in specs for chain in range(spec.chains)],
            spec.chains,
            mode=spec.execution.compile,
            weights=run.schedule.weights,
            device=job.device,
            draw_stride=_stride(job.draws, task.dim(), _size(run, spec, task)),
            warm_start=warm,
        )
        particles = run.sampler.particles
        start, cost = loop.theta[: spec.chains, : loop.problem.dim], loop.cost.shared(particles)
        try_observer(loop.problem, loop.problem.original(start), run.trajectory.shared(particles), cost)
        return loop


def kept_bytes(spec: RunSpec) -> int:
    """Return the bytes that all kept draws of a run take on disk."""
    task = instance(spec.task.target, spec.task.params)
    return _size(parts(spec, task.steps_per_epoch()), spec, task)


def _size(run: Parts, spec: RunSpec, task: Task) -> int:
    return int(run.trajectory.keep.sum()) * run.sampler.particles * spec.chains * task.dim() * 4


def _stride(draws: str, dim: int, size: int) -> int:
    """Return n if every n-th kept draw is stored, or 0 if none is. `size` is the bytes that all of them take."""
    if draws == "none" or (draws == "some" and dim >= LARGE):
        return 0
    return 1 if draws == "all" else -(-size // DRAW_BYTES) or 1


def check_code(specs: Sequence[RunSpec]) -> None:
    """Raise `RunError` if a plugin's code changed while the runs waited, so that it does not match their keys."""
    source.forget_code()
    for part in (specs[0].sampler, specs[0].schedule, specs[0].task):
        if source.source_hash(part.target) != part.source:
            raise RunError(f"the code of {part.name} changed since this command was planned; give the command again")


def open_attempt(ledger: Ledger, spec: RunSpec, here: Mapping[str, Any]) -> tuple[Attempt, Arrays | None, str]:
    """Return the attempt to resume and its checkpoint if what decides its numbers is the same, else a new attempt.

    There is no checkpoint if the attempt has none that its draws and the stored truth fit. The text, if any, is what
    the user must know: why the run starts again although it has a checkpoint, or that it continues on another GPU.
    """
    standing = ledger.standing(spec.key)
    before = standing.unfinished or standing.resumable
    if before is None:
        return Attempt.create(ledger.runs, spec, here), None, ""
    if refusal := _refusal(before, spec, here):
        attempt = Attempt.create(ledger.runs, spec, here)
        return attempt, None, _record_restart(attempt, before, refusal)
    there, told = _environment(before), ""
    elsewhere = not standing.resumable and before.is_at_work_elsewhere()
    if standing.resumable or elsewhere:
        attempt = Attempt.create(ledger.runs, spec, here)
        told = _take_over(attempt, before, here, copy=elsewhere)
    else:
        attempt = before
        failed = _interrupted_take_over(ledger, attempt, spec, here)
        if failed is not None:
            told = _take_over(attempt, failed, here, copy=failed.result() is None)
        attempt.describe(spec)  # fields outside the run key may be damaged on disk, or come from another command
    truth, wrong = (truths.read(ledger.root, spec) or {}).get(SEAL, ""), "its file is damaged"
    for checkpoint in attempt.checkpoints():
        if not _compared_with(checkpoint, truth):
            wrong = "its draws were compared with another truth"
        elif not _draws_fit(attempt, checkpoint, spec):
            wrong = "the draws on disk are not those that it refers to"
        else:
            _record_code(attempt, there.get("code", {}), here.get("code", {}))
            return attempt, checkpoint, told or _record_move(attempt, _environment(attempt), here)
    attempt.drop_draws()
    attempt.set_environment(here)
    return attempt, None, _record_restart(attempt, attempt, wrong)


def _record_restart(attempt: Attempt, before: Attempt, reason: str) -> str:
    """Record why an attempt starts at step 0, if the one before it has a checkpoint. Returns a text for the user."""
    if not any((before.path / name).exists() for name in CHECKPOINTS):
        return ""
    step = before.last_step()
    attempt.event("restarted", reason=reason, attempt_before=before.id, position=step)
    return f"starts again, not from its checkpoint at step {step}: {reason}"


def _take_over(attempt: Attempt, other: Attempt, here: Mapping[str, Any], *, copy: bool) -> str:
    """Let a new attempt continue another one. The move is recorded first, as a kill may come at any time."""
    told = "" if attempt.moves() else _record_move(attempt, _environment(other), here)
    attempt.take_over(other, copy=copy)
    return told


def _record_move(attempt: Attempt, there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """Record that a run continues in another environment; returns a text for the user if it is another kind of GPU."""
    changed = [name for name in {**there, **here} if name not in ("id", "code") and there.get(name) != here.get(name)]
    if not changed:
        return ""
    before, now = ({name: machine.get(name) for name in changed} for machine in (there, here))
    attempt.event("moved", before=before, now=now)
    return f"continues on {now['gpu']} after {before['gpu']}: its bits are those of two devices" if "gpu" in now else ""


def _environment(attempt: Attempt) -> dict[str, Any]:
    """Return the environment in which an attempt was last, as far as it is recorded."""
    record = read_json(attempt.path / "environment.json") or {}
    for move in attempt.moves():
        record |= move["now"]
    return record


def _interrupted_take_over(ledger: Ledger, attempt: Attempt, spec: RunSpec, here: Mapping[str, Any]) -> Attempt | None:
    """Return the failed attempt that this one was made to resume, if a kill came before all its files were moved."""
    if any(event["event"] not in ("created", "moved") for event in attempt.events()):
        return None
    earlier = [other for other in ledger.attempts(spec.key) if other.id < attempt.id]
    result = earlier[-1].result() if earlier else None
    failed = bool(earlier) and (result is None or result["status"] in RESUMABLE)
    return earlier[-1] if failed and not _refusal(earlier[-1], spec, here) else None


def _refusal(attempt: Attempt, spec: RunSpec, here: Mapping[str, Any]) -> str:
    """Return why a run cannot continue from an attempt, or "": records, versions, flags, and on a CPU arithmetic."""
    if attempt.marked:
        return "its steps were made elsewhere, and what is made here begins here"
    record = read_json(attempt.path / "spec.json") or {}
    there = read_json(attempt.path / "environment.json") or {}
    if recorded_key(record) != spec.key or not is_whole(there):
        return "the records of the attempt are damaged"
    changed = differences(deciding(there), deciding(here))
    texts = [f"{name} was {str(then)[:MOST]}, is {str(now)[:MOST]}" for name, (then, now) in changed.items()]
    return ", ".join([*texts[:MOST_CHANGES], *["..."] * (len(texts) > MOST_CHANGES)])


def _record_code(attempt: Attempt, began: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    """Record the code that continues an attempt, with `before`: the digests of other code that ran a part of it."""
    code = {}
    for name, entry in here.items():
        there = began.get(name, entry)
        before = {*there.get("before", ()), there["digest"]} - {entry["digest"]}
        code[name] = {**entry, **({"before": sorted(before)} if before else {})}
    if code != began:
        record = read_json(attempt.path / "environment.json") or {}
        attempt.set_environment({**record, "code": code})


def _compared_with(checkpoint: Arrays, truth: str) -> bool:
    """Return whether the draws up to a checkpoint were compared with the truth of this checksum ("" for none).

    Removes the checksum from the checkpoint.
    """
    return checkpoint.pop(TRUTH, np.zeros(0, dtype=np.uint8)).tobytes().decode() == truth


def _draws_fit(attempt: Attempt, checkpoint: Arrays, spec: RunSpec) -> bool:
    """Cut the draws on disk back to the checkpoint. Returns False if they are not the draws that it refers to."""
    stored = int(checkpoint["counters"][2])
    numbers = stored * spec.chains * int(checkpoint["draw_width"])
    return DRAWN in checkpoint and attempt.cut_draws(numbers, checkpoint.pop(DRAWN).tobytes())
