"""The search for one pair's settings: the values to try next (by optuna's TPE), and the trials that end early.

The search asks for `TOGETHER` trials at a time, however many workers there are, and the seed of TPE depends on the pair
only. So the same command asks for the same trials, and those that were run before are read from the results folder: to
be resumed, a search needs no state of its own.
"""

from __future__ import annotations

import hashlib
import importlib.util
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness import UsageError, statistics
from harness.reports import suggestions
from harness.tasks import ALL_ROWS_SEED, TUNING_SEED, Metric
from plugins.tuning.space import Range, Space

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

TOGETHER = 5
"""Trials that are requested at once."""
LEAST_TRIALS, PER_DIMENSION = 10, 10
"""Trials of a search: so many, and so many more for each dimension of its space."""
SHARES = (0.5, 1.0, 2.0, 4.0)
"""Step sizes at the ends of a sampler's settings, as multiples of that without a search; 5 is the stability limit."""
WIDENINGS = 3
"""How often the best trial may widen intervals at whose edge it is; each time with `PER_DIMENSION` further trials."""
FINALISTS = 5
"""The best trials, which are run again on other seeds."""
DEFAULTS = ("nll", "joint_error")
"""The negative log-likelihood of held-out training data; for a task without it, the error against the truth."""
AGAINST_TRUTH = {
    *("joint_error", "mean_error", "variance_ratio", "ess_mse"),
    *("function_mean_error", "function_sd_error", "function_quantile_error"),
    *("agreement", "total_variation"),
}
"""Metrics of tasks that predict which compare with a truth of all rows."""


@dataclass
class Trial:
    """Values that were tried, and the objective for each tuning seed; infinite for a run that failed.

    `refused` says why no run could be made with the values; `stopped` means that the trial was worse than the median
    after some of its seeds; `final` is the same values on the seeds of the finalists.
    """

    values: Mapping[str, Any]
    asked: Any = None
    seen: list[float] = field(default_factory=list)
    statuses: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    refused: str = ""
    stopped: bool = False
    final: Trial | None = None

    @property
    def objective(self) -> float:
        """The mean over seeds; infinite before the first one."""
        return sum(self.seen) / len(self.seen) if self.seen else math.inf

    @property
    def upper(self) -> float:
        """The upper end of the 95 % interval of the objective over seeds; infinite before the first one."""
        if not self.seen:
            return math.inf
        interval = statistics.mean_interval(self.seen)
        return interval.mean if interval.high is None else interval.high

    @property
    def going(self) -> bool:
        """Whether further seeds of the trial should be run."""
        return not (self.refused or self.stopped or math.inf in self.seen)


class Search:
    """The trials of one pair. The first ones have the values without a search, under each schedule.

    `carried` are values that were good at other budgets: they are finalists without a trial.
    """

    def __init__(
        self, name: str, spaces: Mapping[str, Space], trials: int, carried: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.spaces: dict[str, dict[str, Range]] = {schedule: dict(one.ranges) for schedule, one in spaces.items()}
        self.first_trials = self.count = trials
        self.widenings = 0
        self.trials: list[Trial] = []
        self.round: list[Trial] = []
        names = {schedule: {"schedule", *ranges} for schedule, ranges in self.spaces.items()}
        self.carried = [Trial(values) for values in carried if names.get(values["schedule"]) == {*values}]
        self._seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
        self._study = self._new_study()
        starts = [self._defaults(schedule) for schedule in self.spaces]
        for values in [*starts, *self._at_ends(starts[0], next(iter(spaces.values())).step)]:
            self._study.enqueue_trial(values)

    def _defaults(self, schedule: str) -> dict[str, Any]:
        """Return the values that the pair has without a search under a schedule, where they are in their intervals."""
        values = {
            self._parameter(schedule, setting): min(max(limits.default, limits.low), limits.high)
            for setting, limits in self.spaces[schedule].items()
            if limits.default is not None
        }
        return {**values, **({"schedule": schedule} if len(self.spaces) > 1 else {})}

    def _at_ends(self, start: Mapping[str, Any], step: str) -> list[dict[str, Any]]:
        """Return the defaults of the first schedule with one setting of the sampler at an end, at four step sizes.

        At an end of its interval a setting can make a sampler another one: sghmc is sgld where its friction is 1. What
        is good there can be a region that is too small for random values and TPE.
        """
        schedule, ranges = next(iter(self.spaces.items()))
        h = ranges[step].default if step in ranges else None
        if h is None:
            return []
        steps = [min(max(share * h, ranges[step].low), ranges[step].high) for share in SHARES]
        ends = [
            (name, end) for name, one in ranges.items() if name.startswith("sampler.") for end in (one.low, one.high)
        ]
        return [{**start, name: end, self._parameter(schedule, step): value} for name, end in ends for value in steps]

    def _new_study(self) -> Any:
        import optuna

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler = optuna.samplers.TPESampler(
                seed=(self._seed + self.widenings) % 2**32, n_startup_trials=max(TOGETHER, self.first_trials // 2),
                multivariate=True, group=True, constant_liar=True,
            )  # fmt: skip
        return optuna.create_study(sampler=sampler, pruner=optuna.pruners.MedianPruner())

    def _parameter(self, schedule: str, setting: str) -> str:
        """Return the name of a setting in optuna: each schedule has step sizes of its own."""
        return f"{schedule}:{setting}" if setting.startswith("schedule.") else setting

    def ask(self) -> list[Trial]:
        """Start the next round of trials, and return them; none if all trials were made."""
        self.round = []
        for _ in range(min(TOGETHER, self.count - len(self.trials))):
            asked = self._study.ask()
            names = list(self.spaces)
            schedule = asked.suggest_categorical("schedule", names) if len(names) > 1 else names[0]
            values = {name: self._suggest(asked, schedule, name) for name in self.spaces[schedule]}
            self.round.append(Trial({"schedule": schedule, **values}, asked))
        self.trials += self.round
        return self.round

    def _suggest(self, asked: Any, schedule: str, name: str) -> float:
        limits = self.spaces[schedule][name]
        parameter = self._parameter(schedule, name)
        if limits.whole:
            value = asked.suggest_int(parameter, int(limits.low), int(limits.high), log=limits.logarithmic)
        else:
            value = asked.suggest_float(parameter, limits.low, limits.high, log=limits.logarithmic)
        return limits.rounded(value) if asked.number >= len(self.spaces) or limits.default is None else limits.default

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

    def widen(self, trial: Trial | None) -> bool:
        """Widen the intervals at whose edge a trial lies, for further trials; return whether there will be any."""
        edges = self.edges(trial) if trial else {}
        if not trial or not edges or self.widenings >= WIDENINGS:
            return False
        self.widenings += 1
        self.count += PER_DIMENSION
        for ranges in self.spaces.values():
            for name in edges.keys() & ranges.keys():
                if not name.startswith("schedule.") or ranges is self.spaces[trial.values["schedule"]]:
                    ranges[name] = ranges[name].widened(edges[name])
        self._continue()
        return True

    def _continue(self) -> None:
        """Go on with the trials so far in the intervals as they are now."""
        import optuna

        new = {
            self._parameter(schedule, name): _distribution(limits)
            for schedule, ranges in self.spaces.items()
            for name, limits in ranges.items()
        }
        before = self._study.get_trials()
        self._study = self._new_study()
        self._study.add_trials(
            optuna.trial.create_trial(
                state=one.state, value=one.value, params=one.params, intermediate_values=one.intermediate_values,
                distributions={name: new.get(name, known) for name, known in one.distributions.items()},
            )
            for one in before if one.state.is_finished()
        )  # fmt: skip

    def edges(self, trial: Trial) -> dict[str, str]:
        """Return the settings of a trial that lie at the edge of an interval, "low" or "high"."""
        ranges = self.spaces[trial.values["schedule"]]
        sides = {name: limits.edge(trial.values[name]) for name, limits in ranges.items()}
        return {name: side for name, side in sides.items() if side}

    def finalists(self) -> list[Trial]:
        """Return the best trials that have a value for every seed, and the carried ones, each with a trial on other
        seeds: `final`.
        """
        whole = sorted((trial for trial in self.trials if trial.going), key=lambda trial: trial.objective)
        distinct = list({tuple(trial.values.items()): trial for trial in whole}.values())
        best = distinct[:FINALISTS]
        finalists = [*best, *(one for one in self.carried if one.values not in [trial.values for trial in best])]
        for trial in finalists:
            trial.final = trial.final or Trial(trial.values)
        return finalists

    @property
    def untuned(self) -> Trial | None:
        """The trial with the values that the pair has without a search; None if a stated interval excludes one."""
        first = next(iter(self.spaces.values()))
        whole = all(limits.default is not None for limits in first.values())
        return self.trials[0] if whole and self.trials else None

    @property
    def best(self) -> Trial | None:
        """The best trial that has a value for every seed; the earliest of equal ones."""
        whole = [trial for trial in self.trials if trial.going]
        return min(whole, key=lambda trial: trial.objective, default=None)

    @property
    def compared(self) -> list[Trial]:
        """The finalists of all rounds, each with its trial on other seeds."""
        return [trial for trial in (*self.trials, *self.carried) if trial.final]

    @property
    def chosen(self) -> Trial | None:
        """The finalist whose objective has the lowest upper end of its interval over the finalists' seeds."""
        whole = [trial for trial in self.compared if trial.final and trial.final.seen and trial.final.going]
        return min(whole, key=lambda trial: trial.final.upper if trial.final else math.inf, default=None)


def trials_for(dimensions: int) -> int:
    """Return how many trials a search of a space with so many dimensions makes."""
    return LEAST_TRIALS + PER_DIMENSION * dimensions


def _distribution(limits: Range) -> BaseDistribution:
    from optuna.distributions import FloatDistribution, IntDistribution

    if limits.whole:
        return IntDistribution(int(limits.low), int(limits.high), log=limits.logarithmic)
    return FloatDistribution(limits.low, limits.high, log=limits.logarithmic)


def check_installed() -> None:
    """Raise `UsageError` if optuna is missing."""
    if importlib.util.find_spec("optuna") is None:
        raise UsageError("bench tune needs optuna, which is not installed: pip install 'sgmcmc-bench[tune]'")


@dataclass(frozen=True)
class Objective:
    """A metric, with the direction in which it is better.

    `all_rows` means that it compares with the truth of a task that predicts, so that no rows are held out.
    """

    metric: str
    direction: str
    target: float | None = None
    all_rows: bool = False

    def seeds(self, seeds: Iterable[int]) -> list[int]:
        """Return tuning seeds, as those of a search by this metric."""
        return [seed - TUNING_SEED + ALL_ROWS_SEED if self.all_rows else seed for seed in seeds]

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
        return self.shown(trial.objective)

    def shown(self, loss: float) -> float | None:
        """Return the metric (or its distance from a target) for a loss; None if it is infinite."""
        return None if not math.isfinite(loss) else -loss if self.direction == "max" else loss


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
    all_rows = DEFAULTS[0] in metrics and name in AGAINST_TRUTH
    return Objective(name, metrics[name].direction, metrics[name].target, all_rows)
