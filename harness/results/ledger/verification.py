"""Whether attempts on disk are what was written: every file of a concluded one against its checksum, and each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.results import environment
from harness.results.ledger import rescored
from harness.results.ledger.attempt import Attempt, checksum
from harness.results.spec import KEY_VERSION, recorded_key
from harness.system.files import read_json

DRAWS = "draws.safetensors"


@dataclass(frozen=True)
class Damage:
    """What is wrong with a file, and what to do."""

    path: Path
    what: str
    remedy: str


def problems(key: str, attempt: Attempt) -> Iterator[Damage]:
    """What is wrong with an attempt at a run. Of an unfinished one only the records: its worker may be writing."""
    spec = read_json(attempt.path / "spec.json") or {}
    result, damage = attempt.read_result()
    if damage:
        remedy = "give the run's command again, which repeats the run; then `bench gc --delete` deletes this attempt"
        yield Damage(attempt.path / "result.json", damage.removeprefix("result.json "), remedy)
        return
    found = [*_of_records(attempt, key, spec)]
    if result is not None:
        found += [*_of_files(attempt, key, result), *_of_events(attempt)]
        found += [] if found else _of_draws(attempt, spec, result)
        remedy = "delete its folder, give the run's command again, then `bench ingest --rebuild`"
    else:
        remedy = "give the run's command again, which starts a new attempt"
    told: set[str] = set()
    for name, what in found:
        if name not in told:  # one line a file: the first thing found wrong with it
            told.add(name)
            yield Damage(attempt.path / name, what, remedy)
    if result is not None:
        yield from _of_rescored(attempt)


def _of_records(attempt: Attempt, key: str, spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if not spec:
        yield "spec.json", "cannot be read"
    elif spec.get("key") != key:
        yield "spec.json", f"is of run {str(spec.get('key'))[:12]}, not of the folder's"
    elif spec.get("key_version") == KEY_VERSION and recorded_key(spec) != key:
        yield "spec.json", "is altered: its parts do not match the run's key"
    try:
        whole = environment.is_whole(read_json(attempt.path / "environment.json") or {})
    except (TypeError, ValueError, RecursionError):
        whole = False
    if not whole:
        yield "environment.json", "is missing or altered: its id is not the checksum of the rest"


def _of_files(attempt: Attempt, key: str, result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if result.get("key") != key:
        yield "result.json", f"is of run {str(result.get('key'))[:12]}, not of the folder's"
    files = result.get("files")
    yield from _unlike(attempt, files if isinstance(files, dict) else {})


def _unlike(attempt: Attempt, files: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Files that have not the checksums that stand here."""
    for name, digest in files.items():
        try:
            if Path(name).name != name or checksum(attempt.path / name) != digest:
                yield name, "is altered: its checksum does not match the recorded one"
        except FileNotFoundError:
            yield name, "is missing"
        except OSError as error:
            yield name, f"cannot be read: {error.strerror or error}"


def _of_draws(attempt: Attempt, spec: Mapping[str, Any], result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The draws' shape against the chains of the run, and their number against the draws kept and the stride.

    Results of earlier versions may lack these numbers; then there is nothing to compare.
    """
    from safetensors import SafetensorError, safe_open

    kept, stored, stride = (result.get(f"draws_{name}") for name in ("kept", "stored", "stride"))
    if isinstance(kept, int) and isinstance(stride, int) and stored != (-(-kept // stride) if stride else 0):
        yield "result.json", f"counts {stored} stored draws where every {stride}th of {kept} should be stored"
        return
    if DRAWS not in (result.get("files") or {}):
        if stored:
            yield "result.json", f"counts {stored} stored draws and lists no {DRAWS}"
        return
    try:
        with safe_open(attempt.path / DRAWS, framework="numpy") as file:
            draws, steps = (file.get_slice(name).get_shape() for name in ("draws", "steps"))
    except (OSError, SafetensorError) as error:
        yield DRAWS, f"cannot be read: {error}"
        return
    chains = spec.get("chains")
    if len(draws) != 3 or draws[:2] != [stored, chains] or steps != [stored]:
        yield DRAWS, f"holds draws {draws} of steps {steps}, not {stored} draws of {chains} chains"


def _of_rescored(attempt: Attempt) -> Iterator[Damage]:
    """What `bench rescore` put beside the result."""
    record, damage = rescored.read(attempt.path)
    remedy = "delete it, then `bench ingest --rebuild`; `bench rescore` writes it again"
    if damage:
        yield Damage(attempt.path / rescored.FILE, damage.removeprefix(f"{rescored.FILE} "), remedy)
    for name, what in _unlike(attempt, record["files"]) if record else []:
        yield Damage(attempt.path / name, what, f"{remedy}, and {rescored.FILE} too")


def _of_events(attempt: Attempt) -> Iterator[tuple[str, str]]:
    """A line that a crash cut off has no end and is no damage; one that has an end and cannot be read is."""
    try:
        lines = attempt.content("events.jsonl").splitlines()
    except OSError:
        lines = []
    whole = {i for i, _ in attempt.numbered_events()}
    for i, line in enumerate(lines):
        if line.endswith(b"}") and i not in whole:
            yield "events.jsonl", f"line {i + 1} cannot be read"
    if not {"finished", "failed"} & {event["event"] for event in attempt.events()}:
        yield "events.jsonl", "is missing or cut short: the end of the run is not recorded"
