"""`Bench.compare_on`: samplers compared on a model and data of the user, within a given time."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from harness import Bench, UsageError, options
from harness.reports import Results
from harness.runs import parse_seeds
from harness.system import count
from plugins.modelling.arrays import CLASSES, classes, inputs, read
from plugins.modelling.definition import define
from plugins.modelling.search import STUDY, TRIALS, Candidate, Places, run_tuning, search

DEFAULT = "sgld,psgld,sghmc,baoab,csghmc,deep-ensemble"
PLANNED = 0.6
"""The share of the time that is planned; the rest is for imports, steps that diverge, the database and the report."""
PROBE, PROBED, MOST_PROBED = 20, 0.01, 2_000
"""The speed is measured on a run of 20 steps, then on one for each sampler, of 1 % of the time, 2,000 steps at most."""
TINY = 1e-9
"""The step size of these runs."""


def compare_on(
    bench: Bench,
    model: Any,
    train: Any,
    test: Any,
    *,
    likelihood: str | Callable[..., Any] = "classification",
    prior_precision: float | None = None,
    weight_decay: float | None = None,
    batch: int | None = None,
    unseen: Mapping[str, Any] | None = None,
    metrics: Mapping[str, Any] | None = None,
    shifts: Mapping[str, Callable[..., Any]] | None = None,
    samplers: Any = "default",
    budget: str = "5 minutes",
    seeds: int | str | Iterable[int] = 5,
    chains: int = 4,
    devices: str = "auto",
    workers: int | None = None,
    name: str = "",
) -> Results:
    """See `Bench.compare_on` and docs/my-model.md."""
    seconds = options.duration(re.sub(r"(?<=\d)\s*([smhd])[a-z]*\s*$", r"\1", budget), "budget") or 0.0
    if prior_precision is not None and weight_decay is not None:
        raise UsageError(f"prior_precision = {prior_precision} and weight_decay = {weight_decay}: give one of them")
    arrays = {}
    for part, given in (("train", train), ("test", test)):
        arrays[f"{part}/x"], y = read(given, part, bench.say)
        arrays[f"{part}/label"] = classes(y, likelihood, part) if likelihood in CLASSES else y
    arrays |= {f"{part}/x": inputs(given, f"unseen[{part!r}]", bench.say) for part, given in (unseen or {}).items()}
    terms = len(arrays["train/x"])
    default = 1.0 if weight_decay is None else weight_decay * terms
    file, task = define(
        bench.results, model, arrays, likelihood=likelihood, metrics=metrics or {}, shifts=shifts, name=name,
        prior_precision=float(default if prior_precision is None else prior_precision),
        batch=min(batch or getattr(train, "batch_size", None) or 64, terms),
    )  # fmt: skip
    bench.plugins = (*(known for known in bench.plugins if known != file), file)
    bench.say(f"the task is {task.rpartition(':')[2]}, in {file}")
    numbers = [*range(seeds)] if isinstance(seeds, int) else parse_seeds(seeds) if isinstance(seeds, str) else [*seeds]
    kind, places = bench.places(devices, workers, [task])
    candidates = _candidates(bench, samplers, task, kind, chains)
    length = f"passes={affordable(bench, candidates, seconds, Runs(len(numbers), chains), places):g}"
    bench.say(f"{length} for each chain of every sampler; quick search of step sizes, by {TRIALS} trials")
    search(bench, candidates, length, places)
    requests = []
    for one in candidates:
        if one.setting and one.best is None:
            bench.say(f"note: {one.request.samplers[0]} is left out: it diverged at every step size that was tried")
        else:
            study = STUDY if one.setting else ""
            requests.append(replace(one.request, seeds=numbers, budget=length, study=study))
    if not requests:
        raise UsageError("every sampler diverged at every step size that was tried; is the data on a sensible scale?")
    planned = bench.planned(requests)
    bench.execute(planned, places, retry=False, long_is_fine=True)
    return bench.load(task=task.rpartition(":")[2], budget={item.spec.budget for item in planned}, chains=chains)


def _candidates(bench: Bench, samplers: Any, task: str, device: str, chains: int) -> list[Candidate]:
    """Return what to search for each sampler; with "all", for those that can run."""
    named = DEFAULT if isinstance(samplers, str) and samplers == "default" else samplers
    if every := isinstance(samplers, str) and samplers == "all":
        named = [f"{offer.distribution}:{offer.name}" for offer in bench.registry.offers("samplers")]
    candidates, refused = [], []
    for request in bench.requests(named, task, chains=chains):
        try:
            one = Candidate.of(bench, replace(request, device=device))
            bench.planned([one.tuning(TINY, f"steps={PROBE}")])
        except UsageError as error:
            if not every:
                raise
            refused.append(str(error))
        else:
            candidates.append(one)
    if refused:
        bench.say(f"note: {count(len(refused), 'sampler')} left out: {'; '.join(refused)}")
    return candidates


class Runs(NamedTuple):
    """The runs of each sampler: one for each seed, of so many chains."""

    seeds: int
    chains: int


class Pace(NamedTuple):
    """Seconds of a run of one chain: to start and end it, for each step, and for each data pass and its draw."""

    start: float
    step: float
    data_pass: float


def paces(bench: Bench, candidates: Sequence[Candidate], steps: int, places: Places) -> list[Pace]:
    """Measure the speed of each sampler by a run, which also tries all that the others do: a draw, every metric."""
    measured = []
    requests = [one.tuning(TINY, f"steps={steps}", **{"run.thin": 1}) for one in candidates]
    for one, (_, result) in zip(candidates, run_tuning(bench, requests, places), strict=True):
        if result is None:
            raise UsageError(f"{one.request.samplers[0]}: the loss of the model is not finite at a step size of {TINY}")
        began, ended = (datetime.fromisoformat(result[name]) for name in ("started", "finished"))
        sampling, observing = result["seconds"]["sampling"], result["seconds"]["observing"]
        step, draw = sampling / steps, observing / max(1, result["draws_kept"])
        start = (ended - began).total_seconds() - sampling - observing
        measured.append(Pace(start, step, step / result["passes_per_step"] + draw / 2))
    return measured


def affordable(bench: Bench, candidates: Sequence[Candidate], seconds: float, runs: Runs, places: Places) -> float:
    """Return how many data passes each chain of the trials and of the runs can make in the time, to two digits."""
    (first,) = paces(bench, candidates[:1], PROBE, places)
    steps = min(max(PROBE, int(PROBED * seconds / first.step)), MOST_PROBED)
    measured = paces(bench, candidates, steps, places)
    trials = [(TRIALS + runs.chains) * bool(one.setting) for one in candidates]  # the last is of all chains
    passes = planned_passes(measured, trials, runs, PLANNED * seconds * len(places))
    if passes < 2:
        raise UsageError(
            f"{seconds:,.0f} s are enough for {passes:.2g} data passes of each chain, and 2 are needed; a run takes "
            f"{measured[0].start:.1f} s to start and end, and {measured[0].data_pass:.2g} s for a data pass; "
            "give more time, fewer samplers, seeds or chains, or less data"
        )
    return passes


def planned_passes(measured: Sequence[Pace], trials: Sequence[int], runs: Runs, seconds: float) -> float:
    """Return the number of data passes, to two digits, that trials and runs of all samplers make in the seconds."""
    start = sum((n + runs.seeds) * pace.start for n, pace in zip(trials, measured, strict=True))
    each = sum((n + runs.seeds * runs.chains) * pace.data_pass for n, pace in zip(trials, measured, strict=True))
    passes = max(seconds - start, 0.0) / each
    digit = 10.0 ** max(math.floor(math.log10(passes)) - 1, 0) if passes >= 1 else 1.0
    return math.floor(passes / digit) * digit
