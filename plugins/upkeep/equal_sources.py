"""Rows that rest on `equal_sources.json`: other code made their runs, and a package declares it equal to today's.

A run that is made by code with such a declaration records the hash of the code itself, so rows that today's code made
rest on nothing. A night repeats one run for each declaration on which its rows rest. The outcomes are kept in `laws/`
of the results folder, by the two hashes: nothing is repeated twice.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from harness import Bench, BenchError, Info, Registry
from harness.reports import Store
from harness.results import FINAL, PARTS, Attempt, environment, laws
from harness.runs import EndedError, content_hash, source_hash
from plugins.upkeep import replay

CAVEAT = "equal source"
NOT_REPLAYED = "not replayed"
_CODE = ", ".join(f"max(json_extract_string(detail, '$.code.{part}')) as {part}_code" for part in PARTS)
_ROWS = f"""
with code as (select attempt, {_CODE} from event where event in ('started', 'resumed') group by attempt)
select {{columns}}, {", ".join(f"{part}, {part}_source, {part}_code" for part in PARTS)}
from result left join code using (attempt) where status in {FINAL}
"""  # noqa: S608 - own names
Declared = Callable[[str, str, str], list[str]]


@dataclass(frozen=True)
class Declaration:
    """A declaration that code, by its hash, gives the numbers of earlier code, which made some runs."""

    part: str
    name: str
    code: str
    earlier: str

    @property
    def key(self) -> str:
        """The name of the outcome of its replay."""
        return laws.key(self.name, self.code, {"equal to": self.earlier})

    def __str__(self) -> str:
        """Return it for people."""
        return f"{self.part} {self.name}, {self.code[:8]} for {self.earlier[:8]}"


def caveats(store: Store, registry: Registry) -> dict[str, dict[str, str]]:
    """Return, for the groups whose runs rest on declarations, which these are and what their replay gave."""
    known, declared = laws.read(store.results), _declarations(registry)
    told: dict[str, dict[str, None]] = {}
    for row in store.rows(f"select distinct * from ({_ROWS.format(columns='group_key')}) order by all"):  # noqa: S608 - own query
        for one in _rests_on(row, declared):
            told.setdefault(row["group_key"], {})[f"{one}: {_told(known.get(one.key))}"] = None
    return {group: {CAVEAT: "; ".join(texts)} for group, texts in told.items()}


def replay_missing(bench: Bench, store: Store) -> list[tuple[dict[str, Any], str]]:
    """Repeat one run for each declaration on which the store rests, unless it was repeated before.

    Return a run and a sentence for each declaration whose replay, now or earlier, gave other numbers.
    """
    columns = "attempt, run_key, path, seed, status, copied, chains, steps"
    known, declared = laws.read(bench.results), _declarations(bench.registry)
    cheapest: dict[Declaration, dict[str, Any]] = {}
    for row in store.rows(f"{_ROWS.format(columns=columns)} order by copied, chains * steps, run_key"):
        for one in _rests_on(row, declared):
            cheapest.setdefault(one, row)
    wrong = []
    for one, row in cheapest.items():
        outcome = known[one.key] if one.key in known else _replay(bench, one, row)
        if outcome.verdict == laws.Verdict.FAILED:
            wrong.append((row, f"{one}, declared equal: {outcome.reason}"))
    return wrong


def _told(outcome: laws.Outcome | None) -> str:
    """Return the outcome of a replay for people."""
    if outcome is None:
        return NOT_REPLAYED
    return "replayed, passed" if outcome.verdict == laws.Verdict.PASSED else outcome.reason


def _rests_on(row: Mapping[str, Any], declared: Declared) -> list[Declaration]:
    """Return the declarations of installed code on which a run rests: other code than today's made it."""
    resting: list[Declaration] = []
    for part in PARTS:
        name, source, made_by = (row[f"{part}{what}"] for what in ("", "_source", "_code"))
        codes = declared(f"{part}s", name, source)
        resting += [Declaration(part, name, code, source) for code in codes if code != made_by]
    return resting


def _declarations(registry: Registry) -> Declared:
    """Return the function that returns, by kind, name and source, hashes of installed code declared equal to it."""

    @functools.cache
    def declared(kind: str, name: str, source: str) -> list[str]:
        codes = []
        for offer in registry.offers(kind):
            if offer.name == name and isinstance(offer.info, Info):
                with suppress(BenchError):  # code that cannot be read runs nothing either
                    code = content_hash(offer.target)
                    codes += [code] if code != source == source_hash(offer.target) else []
        return codes

    return declared


def _replay(bench: Bench, one: Declaration, row: Mapping[str, Any]) -> laws.Outcome:
    """Repeat a run and keep the outcome; a run that cannot be repeated here has none, and is tried again."""
    bench.say(f"replaying seed {row['seed']} of run {row['run_key'][:12]}: {one}")
    try:
        asked = replay.request(Attempt(bench.results / row["path"]), bench.registry, anyway=False)
        job = bench.job([asked.spec], asked.data, asked.device)
        replayed = replay.repeat(asked, job, lambda *_: None)
    except (BenchError, EndedError) as error:
        bench.say(f"note: not replayed: {error}")
        return laws.NOT_RUN
    outcome = laws.Outcome(laws.Verdict.PASSED)
    if replayed.differences or replayed.again.get("status") != row["status"]:
        first = next(iter(replayed.differences), None)
        what = f"{first.file} {first.entry}".strip() if first else "its status"
        reason = f"seed {row['seed']} of run {row['run_key'][:12]} gives another {what}"
        outcome = laws.Outcome(laws.Verdict.FAILED, reason=reason)
        if asked.device != "cpu" or any(_decides(name, *both) for name, both in replayed.environment.items()):
            reason = f"replayed in another environment, where {what} differs, which may be the reason"
            outcome = laws.Outcome(laws.Verdict.NOT_RUN, reason=reason)
    laws.write(bench.results, one.key, outcome, {**asdict(one), "run_key": row["run_key"]})
    return outcome


def _decides(name: str, then: Any, now: Any) -> bool:
    """Return whether a differing entry of the environment may change bits on a CPU; the system's release does not."""
    if name == "platform":
        first, second = ([*words[:1], *words[2:]] for words in (str(then).split(), str(now).split()))
        return first != second
    return name.partition(".")[0] not in environment.NEUTRAL
