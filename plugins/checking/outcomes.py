"""The laws at the settings of rows: which outcomes are known, and those that are made now."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import BenchError, Registry
from harness.contracts import HARNESS, Offer, plugin_process
from harness.results import Send, laws
from harness.runs import EndedError, call, instance, note_code, plugin_metadata, source_hash

if TYPE_CHECKING:
    from plugins.checking.suite import LawResult

SECONDS = 900.0
"""Time limit of the laws of a sampler that is not built in."""
VARIANCE = "gradient_variance"
SHOWN = 200
"""Characters of a failure that an outcome repeats."""


@dataclass(frozen=True)
class Held:
    """A sampler that rows name, by the hash of its code, and its settings as JSON."""

    sampler: str
    source: str
    settings: str

    @property
    def key(self) -> str:
        """The name of its outcome."""
        return laws.key(self.sampler, self.source, self.settings)


def held_in(rows: Iterable[Mapping[str, Any]]) -> dict[str, Held]:
    """Return the samplers of rows of the table `run`, by the key of their outcome."""
    every = [Held(row["sampler"], row["sampler_source"], row["sampler_params"]) for row in rows]
    return {one.key: one for one in every}


def make(results: Path, registry: Registry, files: Sequence[str], asked: Mapping[str, Held]) -> dict[str, laws.Outcome]:
    """Return the outcomes by key, made and stored unless they passed before; a sampler whose code is missing has none.

    A failure is judged again each time, as it may have been one of the laws, or of the machine.
    """
    known = laws.read(results)
    passed = {key for key, outcome in known.items() if outcome.verdict == laws.Verdict.PASSED}
    fresh = outcomes(registry, files, {key: one for key, one in asked.items() if key not in passed})
    for key, outcome in fresh.items():
        laws.write(results, key, outcome, asdict(asked[key]))
    return {key: outcome for key, outcome in {**known, **fresh}.items() if key in asked}


def outcomes(registry: Registry, files: Sequence[str], asked: Mapping[str, Held]) -> dict[str, laws.Outcome]:
    """Hold samplers to the short laws at their settings, and return the outcomes by key.

    The tests of sgmcmc-bench hold its own samplers at their defaults. Each sampler from outside has a child process,
    and is held to `whole-law`, too, if it is not linear: the short laws do not know its stationary distribution.
    """
    offers = {key: offer for key, one in asked.items() if (offer := _offer(registry, one))}
    settings = {key: _settings(offer, asked[key]) for key, offer in offers.items()}
    ours = [key for key, offer in offers.items() if offer.distribution == HARNESS]
    at_defaults = [key for key in ours if plugin_metadata.resolve(offers[key], {}) == settings[key]]
    done = dict.fromkeys(at_defaults, laws.Outcome(laws.Verdict.PASSED))
    batches = [[key for key in ours if key not in done], *([key] for key in offers.keys() - ours)]
    for batch in filter(None, batches):
        foreign = offers[batch[0]].distribution != HARNESS
        items = [(offers[key].target, settings[key]) for key in batch]
        try:
            judged = call(
                "plugins.checking.outcomes:judge", items, tuple(files), foreign, listen=lambda *_: None,
                seconds=SECONDS if foreign else None,
            )  # fmt: skip
        except (BenchError, EndedError) as error:
            if not foreign:
                raise
            judged = [laws.Outcome(laws.Verdict.FAILED, reason=str(error)[:SHOWN])] * len(batch)
        done |= dict(zip(batch, judged, strict=True))
    return done


def _offer(registry: Registry, one: Held) -> Offer | None:
    """Return the installed sampler that has this code, or None."""
    named = [offer for offer in registry.offers("samplers") if offer.name == one.sampler]
    return next((offer for offer in named if source_hash(offer.target) == one.source), None)


def _settings(offer: Offer, one: Held) -> dict[str, Any]:
    """Return the settings at which to hold a sampler.

    A built-in one subtracts a declared variance of the gradient's noise from its own. The laws are about gradients
    without that noise, so it has its default.
    """
    settings: dict[str, Any] = json.loads(one.settings)
    fields = plugin_metadata.fields(offer) if offer.distribution == HARNESS else ()
    return {**settings, **{field.name: field.default for field in fields if field.name in {VARIANCE} & settings.keys()}}


def judge(
    items: Sequence[tuple[str, Mapping[str, Any]]], files: Sequence[str], foreign: bool, _: Send
) -> list[laws.Outcome]:
    """Return the outcomes of samplers, by target and settings, in this process, which must stay as it is."""
    import torch

    from plugins.checking.check import LONG
    from plugins.checking.samplers import derived, whole
    from plugins.checking.suite import LAWS, check_samplers

    for path in files:
        plugin_process.add_file(Path(path))
    torch.set_num_threads(1)
    measuring = note_code({target: target for target, _ in items})
    samplers = [instance(target, settings) for target, settings in items]
    judged = check_samplers(samplers, [law.name for law in LAWS if law.name not in LONG])
    for sampler, results in zip(samplers, judged, strict=True) if foreign else ():
        if not any(result.law == derived.LAW.name and result.outcome == "passed" for result in results):
            results.extend(check_samplers([sampler], [whole.LAW.name])[0])
    ignored = [_ignores(sampler) if foreign else "" for sampler in samplers]
    judgements = [_outcome(results, ignores) for results, ignores in zip(judged, ignored, strict=True)]
    if measuring is not None:
        measuring.check()
    return judgements


def _ignores(sampler: Any) -> str:
    """Return what the law `potential` says of a sampler whose draws ignore the gradient: nobody is exempt from that."""
    from plugins.checking.samplers import potential

    try:
        potential.check(sampler)
    except potential.IgnoresGradient as verdict:
        return str(verdict)
    except Exception:  # noqa: BLE001 - the law itself reports it
        return ""
    return ""


def _outcome(results: Sequence[LawResult], ignores: str) -> laws.Outcome:
    failed = {result.law: result.message for result in results if result.outcome == "failed"}
    if ignores:
        failed = {"potential": ignores, **failed}
    if failed:
        reason = "{}: {}".format(*next(iter(failed.items())))
        return laws.Outcome(laws.Verdict.FAILED, (*failed,), reason[:SHOWN], bool(ignores))
    exempt = tuple(result.law for result in results if result.outcome == "exempt")
    return laws.Outcome(laws.Verdict.PASSED, exempt)
