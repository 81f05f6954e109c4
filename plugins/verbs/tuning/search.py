"""The search for one pair's settings: which values are tried next (optuna's TPE), and which trials end early.

Trials are asked for `TOGETHER` at a time, however many workers there are, and TPE draws from a seed of the pair. So
the same command asks for the same trials, and those that were run before are taken from the results folder: a search
needs no state of its own to be resumed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.system.errors import UsageError
from plugins.verbs.tuning.space import Range

TOGETHER = 5
"""Trials that are asked for at once."""


@dataclass
class Trial:
    """Values that were tried, and the objective for each tuning seed; infinite for a run that failed.

    `refused` is why no run could be made of the values; `stopped`: it is worse than the median after some seeds.
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
        """The mean over seeds."""
        return sum(self.seen) / len(self.seen) if self.seen else math.inf

    @property
    def going(self) -> bool:
        """Whether further seeds are worth a run."""
        return not (self.refused or self.stopped or math.inf in self.seen)


class Search:
    """The trials of one pair; the first has the values that the pair has without a search, where they are inside."""

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
        """Begin the next round of trials; none at the end."""
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
        """Stop the trials of this round that are worse than the median after as many seeds."""
        for trial in self.round:
            if trial.going:
                trial.asked.report(trial.objective, len(trial.seen))
                trial.stopped = bool(trial.asked.should_prune())

    def tell(self) -> None:
        """Conclude the round. A trial that failed is worse than all that only were stopped."""
        from optuna.trial import TrialState

        for trial in self.round:
            if trial.going:
                self._study.tell(trial.asked, trial.objective)
            else:
                self._study.tell(trial.asked, state=TrialState.PRUNED)

    @property
    def untuned(self) -> Trial | None:
        """The trial of the values without a search; None where a stated interval leaves one of them out."""
        whole = all(limits.default is not None for limits in self.space.values())
        return self.trials[0] if whole and self.trials else None

    @property
    def best(self) -> Trial | None:
        """The best trial that has a value for every seed; the earliest of equals."""
        whole = [trial for trial in self.trials if trial.going]
        return min(whole, key=lambda trial: trial.objective, default=None)


def check_installed() -> None:
    """Raise `UsageError` where optuna is missing."""
    if importlib.util.find_spec("optuna") is None:
        raise UsageError("bench tune needs optuna, which is not installed: pip install 'sgmcmc-bench[tune]'")
