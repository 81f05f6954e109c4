"""The search for one pair's settings: the values to try next (by optuna's TPE), and the trials that end early.

The search asks for `TOGETHER` trials at a time, however many workers there are, and the seed of TPE depends on the pair
only. So the same command asks for the same trials, and those that were run before are read from the results folder: to
be resumed, a search needs no state of its own.
"""

from __future__ import annotations

import hashlib
import importlib.util
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness import UsageError
from harness.reports import suggestions
from harness.tasks import Metric
from plugins.tuning.space import Range

TOGETHER = 5
"""Trials that are requested at once."""

DEFAULTS = ("nll", "joint_error")
"""The negative log-likelihood of held-out training data; for a task without it, the error against the truth."""


@dataclass
class Trial:
    """Values that were tried, and the objective for each tuning seed; infinite for a run that failed.

    `refused` says why no run could be made with the values; `stopped` means that the trial was worse than the median
    after some of its seeds.
    """

    values: Mapping[str, float]
    asked: Any
    seen: list[float] = field(default_factory=list)
    statuses: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    passes: float = 0.0
    refused: str = ""
    stopped: bool = False

    @property
    def objective(self) -> float:
        """The mean over seeds; infinite before the first one."""
        return sum(self.seen) / len(self.seen) if self.seen else math.inf

    @property
    def going(self) -> bool:
        """Whether further seeds of the trial should be run."""
        return not (self.refused or self.stopped or math.inf in self.seen)


class Search:
    """The trials of one pair. The first has the pair's values without a search, if the intervals include them."""

    def __init__(self, name: str, space: Mapping[str, Range], trials: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.space, self.count = space, trials
        self.trials: list[Trial] = []
        self.round: list[Trial] = []
        seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
        sampler = optuna.samplers.TPESampler(
            seed=seed, n_startup_trials=max(TOGETHER, trials // 3), multivariate=True, constant_liar=True
        )
        self._study = optuna.create_study(sampler=sampler, pruner=optuna.pruners.MedianPruner())
        self._study.enqueue_trial(
            {
                name: min(max(limits.default, limits.low), limits.high)
                for name, limits in space.items()
                if limits.default is not None
            }
        )

    def ask(self) -> list[Trial]:
        """Start the next round of trials, and return them; none if all trials were made."""
        self.round = []
        for _ in range(min(TOGETHER, self.count - len(self.trials))):
            asked = self._study.ask()
            values = {name: self._suggest(asked, name, limits) for name, limits in self.space.items()}
            self.round.append(Trial(values, asked))
        self.trials += self.round
        return self.round

    def _suggest(self, asked: Any, name: str, limits: Range) -> float:
        if limits.whole:
            value = asked.suggest_int(name, int(limits.low), int(limits.high), log=limits.logarithmic)
        else:
            value = asked.suggest_float(name, limits.low, limits.high, log=limits.logarithmic)
        return limits.rounded(value) if asked.number or limits.default is None else limits.default

    def stop_hopeless(self) -> None:
        """Stop the trials of this round that are worse than the median after the same number of seeds."""
        for trial in self.round:
            if trial.going:
                trial.asked.report(trial.objective, len(trial.seen))
                trial.stopped = bool(trial.asked.should_prune())

    def tell(self) -> None:
        """Conclude the round. For optuna, a trial that failed is worse than all trials that were only stopped."""
        from optuna.trial import TrialState

        for trial in self.round:
            if trial.going:
                self._study.tell(trial.asked, trial.objective)
            else:
                self._study.tell(trial.asked, state=TrialState.PRUNED)

    @property
    def untuned(self) -> Trial | None:
        """The trial with the values that the pair has without a search; None if a stated interval excludes one."""
        whole = all(limits.default is not None for limits in self.space.values())
        return self.trials[0] if whole and self.trials else None

    @property
    def best(self) -> Trial | None:
        """The best trial that has a value for every seed; the earliest of equal ones."""
        whole = [trial for trial in self.trials if trial.going]
        return min(whole, key=lambda trial: trial.objective, default=None)


def check_installed() -> None:
    """Raise `UsageError` if optuna is missing."""
    if importlib.util.find_spec("optuna") is None:
        raise UsageError("bench tune needs optuna, which is not installed: pip install 'sgmcmc-bench[tune]'")


@dataclass(frozen=True)
class Objective:
    """A metric, with the direction in which it is better."""

    metric: str
    direction: str
    target: float | None = None

    def loss(self, metrics: list[dict[str, Any]]) -> float:
        """Return the number to minimise from the metrics of a finished run; infinite if the metric has no value."""
        value = next((metric["value"] for metric in metrics if metric["name"] == self.metric), None)
        if value is None or not math.isfinite(value):
            return math.inf
        if self.direction == "target":
            return abs(float(value) - float(self.target or 0.0))
        return -float(value) if self.direction == "max" else float(value)

    def of(self, trial: Trial) -> float | None:
        """Return the metric of a trial (or its distance from a target), the mean over seeds; None if a run failed."""
        value = trial.objective
        return None if not math.isfinite(value) else -value if self.direction == "max" else value


def objective(task: str, declared: Sequence[Metric], named: str | None) -> Objective:
    """Return the named objective, or the task's default one; raise `UsageError` if the task has none."""
    metrics = {metric.name: metric for metric in declared}
    name = named or next((name for name in DEFAULTS if name in metrics), None)
    if name is None:
        raise UsageError(
            f"task {task} has neither {' nor '.join(DEFAULTS)}; name what to tune by: --objective METRIC"
            f"{suggestions('', metrics)}"
        )
    if name not in metrics:
        raise UsageError(f"--objective {name!r:.80}: task {task} has no such metric{suggestions(name, metrics)}")
    return Objective(name, metrics[name].direction, metrics[name].target)
