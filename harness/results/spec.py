"""RunSpec: all that determines the numbers of one run, its canonical form and its key."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, asdict, dataclass, fields
from typing import Any

from harness.contracts import user_files
from harness.contracts.offers import LONGEST as LONGEST_NAME
from harness.contracts.randomness import ORDERS, TUNING_SEED
from harness.system.columns import Malformed, check, dump, entry

KEY_VERSION = 1
"""Version of the canonical form below."""

ENGINE = 3
"""Raised when the loop, the streams or a step's arithmetic changes numbers; a golden test fails until it is raised."""

MAX_STEPS = 100_000_000
"""The most steps of a run, because its trajectory is held in memory."""
MAX_CHAINS = 100_000
"""The most chains of a run."""
MOST_SUBSTEPS = 64
"""The most steps that stand for one of the schedule."""
MAX_CHARACTERS = 2**20
"""The most characters of a run's record as JSON. The longest so far has 2**14."""

GIVEN = "given"
"""The provenance of knowledge that a task gives a sampler at no cost."""
LATE = "late"
"""The provenance of the season after whose results a row was added. It is no setting."""
USER, SWEPT, TUNED = "user", "swept", "tuned"
"""The provenance of a value that a user set for a run, of one in a declared sweep, and of one from `bench tune`."""
ONE_SETTING = "one-setting"
"""The provenance of a default where the command asked for nothing else: `--settings one-setting`."""
SEARCH_VERSION = 3
"""Version of the rules by which `bench tune` searches. Results that were tuned by different rules are not compared."""
QUICK_SEARCH = -1
"""The version in records of a search of few step sizes without finalists."""


@dataclass(frozen=True)
class Component:
    """A sampler, schedule or task of a run: its name, the hash of its code, and its resolved parameters."""

    name: str = entry("name of the {}", column="{}", most=LONGEST_NAME)
    target: str = entry("where its class is", column=None)
    source: str = entry("SHA-256 of the {}'s source", column="{}_source")
    params: Mapping[str, Any] = entry("settings of the {}, as JSON", column="{}_params")

    def canonical(self) -> dict[str, Any]:
        """Return the part of it that determines numbers; the location of the class does not."""
        return {"name": self.name, "source": self.source, "params": dict(self.params)}


@dataclass(frozen=True)
class Tuning:
    """The searches that a setting comes from: `version` is that of their rules, `schedules` were searched.

    The cost is `searches` of the pair, their `trials`, and the data `passes` of all chains. `changed` names the parts
    whose code has changed since.
    """

    study: str
    version: int
    budget: str
    schedules: tuple[str, ...]
    searches: int
    trials: int
    passes: float
    changed: str = ""

    def __str__(self) -> str:
        trials = f"{self.searches} searches, " * (self.searches > 1) + f"{self.trials} trials at {self.budget}"
        changed = f"; the code of the {self.changed} has changed since" if self.changed else ""
        return f"study {self.study}: {trials}, {float(f'{self.passes:.3g}'):,.12g} data passes{changed}"


@dataclass(frozen=True)
class Origin:
    """Where a setting came from: its value, how far to trust it, and the text of its source."""

    value: Any
    provenance: str
    source: str = ""
    tuning: Tuning | None = None

    def record(self) -> dict[str, Any]:
        """Return it as plain data, which `read_origin` reads."""
        return {name: value for name, value in asdict(self).items() if name != "tuning" or value}


def read_origin(record: Mapping[str, Any]) -> Origin:
    """Return the origin of a stored record; `TypeError` or `KeyError` for another record."""
    if not (tuning := record.get("tuning")):
        return Origin(**record)
    return Origin(**{**record, "tuning": Tuning(**{**tuning, "schedules": tuple(tuning["schedules"])})})


@dataclass(frozen=True, kw_only=True)
class Execution:
    """How a run is executed. A new flag is a field here, and a line in `harness.runs.job.set_up`.

    A field with `column=None` is stored in the column `execution`. For `when` and `setting` see `RunSpec`.
    """

    device: str = entry("the kind, cpu or cuda: their random generators give other numbers", "cpu", column=None)
    dtype: str = entry("floating-point type of the chains")
    deterministic: bool = entry("whether deterministic algorithms were asked for", True)
    compile: str = entry(
        "how steps are executed",
        "plain",
        setting=("str", None, "execution of steps; none: by their number", "", ("plain", "compiled", "network")),
    )
    tf32: bool = entry(
        "whether products and convolutions of float32 may round their inputs to TF32",
        False,
        column=None,
        when="cuda",
        setting=("bool", None, "GPU: whether float32 may be TF32; none: false"),
    )
    cudnn_benchmark: bool = entry(
        "whether cuDNN times its algorithms and takes the fastest",
        False,
        column=None,
        when="cuda",
        setting=("bool", None, "GPU: whether cuDNN times its algorithms; none: false"),
    )


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """One run: sampler x schedule x task x seed, at a budget. A new field is one line here, and a golden key.

    A field is part of the key, and so of a row's identity, unless it is a `label`. `when` limits that: "cuda" means
    only on a GPU, and "set" only if the value is not the default, so that a new field does not change the keys of
    earlier runs. `setting` makes the field available as `--set run.NAME`; it is the type, the default (None: the plan's
    or the field's), the meaning, the interval and the choices. The fields of `execution` are among the others in the
    canonical form.
    """

    method: str = entry("method, or sampler, as asked for", "", label=True, most=LONGEST_NAME)
    sampler: Component
    schedule: Component
    task: Component
    task_version: int = entry("version of the task", at="task.version")
    protocol: str = entry("protocol of the task", at="task.protocol")
    data: str = entry(
        "checksum of the task's data files; empty where it reads none", at="task.data", column="task_data", absent=""
    )
    budget: str = entry("label of the budget: smoke, quick, paper, steps=N", "", label=True)
    steps: int = entry("steps of each chain", least=1, most=MAX_STEPS)
    burn_in: int = entry(
        "steps dropped at the start", least=0, setting=("float", 0.0, "share of the run (< 1) or steps", "[0, inf)")
    )
    thin: int = entry(
        "every thin-th draw is kept", least=1, setting=("int", 1, "every how many draws one is kept", "[1, inf)")
    )
    batch_order: str = entry(
        "order of minibatches",
        ORDERS[0],
        when="set",
        absent=ORDERS[0],
        setting=("str", ORDERS[0], "order of the minibatches, of tasks with data", "", ORDERS),
    )
    moved: bool = entry(
        "whether theta is moved", False, when="set", absent="false", setting=("bool", False, "whether theta is moved")
    )
    substeps: int = entry(
        "steps for each step of the schedule, which share its step size and its noise; steps, burn_in and thin count "
        "them",
        1,
        when="set",
        absent="1",
        setting=("int", 1, "steps for each step of the schedule: 1, 2, 4, ...", f"[1, {MOST_SUBSTEPS}]"),
    )
    warm_start: str | None = entry(
        "optimiser whose last positions are the first ones of the chains; NULL: none",
        None,
        when="set",
        setting=("str", None, "sampler, an optimiser, that makes the first positions; none: the task does"),
    )
    warm_passes: float | None = entry(
        "data passes of the warm start",
        None,
        when="set",
        setting=("float", None, "data passes of the warm start, part of the budget", "(0, inf)"),
    )
    warm_step_size: float | None = entry(
        "step size of the warm start",
        None,
        when="set",
        setting=("float", None, "step size of the warm start; none: the optimiser's own for the task", "(0, inf)"),
    )
    warm_source: str | None = entry(
        "SHA-256 of the source of the warm start's optimiser", None, when="set", at="sampler.warm_source"
    )
    seed: int = entry("seed of the run", least=0, most=2 * TUNING_SEED - 1)
    chains: int = entry("chains of the run", least=1, most=MAX_CHAINS)
    execution: Execution
    origins: Mapping[str, Origin] = entry("setting -> value, provenance and source, as JSON", dict, label=True)

    def canonical(self) -> dict[str, Any]:
        """Return the parts that the key is made of, as plain data."""
        record: dict[str, Any] = {"key_version": KEY_VERSION, "engine": ENGINE}
        values = {**vars(self), **vars(self.execution)}
        for f in FIELDS:
            value = values[f.name]
            if _counts(f, value, self.execution.device):
                *above, name = _path_in_record(f)
                part = record[above[0]] if above else record
                part[name] = value.canonical() if isinstance(value, Component) else value
        return record

    @functools.cached_property
    def key(self) -> str:
        """SHA-256 of the canonical form."""
        return _digest(self.canonical())

    @functools.cached_property
    def group(self) -> str:
        """The key without the seed. Runs that share it are replicates of one row."""
        return _digest({name: value for name, value in self.canonical().items() if name != "seed"})

    def files(self) -> list[str]:
        """Return the files of the user that its settings name, each as "sha256:..."."""
        return [file for name in PARTS for file in user_files.named_in(getattr(self, name).params)]

    def to_json(self) -> dict[str, Any]:
        """Return the record that is stored in the attempt's directory."""
        record = self.canonical()
        for name in PARTS:
            record[name]["target"] = getattr(self, name).target
        labels = {"key": self.key, "group": self.group, "method": self.method, "budget": self.budget}
        origins = {name: origin.record() for name, origin in sorted(self.origins.items())}
        return {**record, **labels, "protocol": self.protocol, "origins": origins}


PARTS = ("sampler", "schedule", "task")
"""The parts of a run that are plugins with parameters."""
FIELDS = tuple(f for f in (*fields(RunSpec), *fields(Execution)) if f.name != "execution")
"""The fields of a RunSpec, including those of its execution."""
SETTINGS = tuple(
    f.name for f in FIELDS if not {"label", "at"} & f.metadata.keys() and f.name not in {*PARTS, "seed", "chains"}
)
"""The fields of a run that are settings, `run.NAME`. The other fields have places of their own in a report."""


def budget_label(budget: str) -> str:
    """Return the label of a budget: of data passes in one spelling, for example "passes=10" of "passes=1e1"."""
    kind, _, number = budget.partition("=")
    try:
        return f"passes={float(number):.15g}" if kind == "passes" else budget
    except ValueError:  # in a record that somebody else wrote
        return budget


def from_record(record: Mapping[str, Any]) -> RunSpec:
    """Return the RunSpec that `to_json` wrote, of whichever engine.

    Raises ValueError if the record is incomplete, or if a value is outside the limits that the command line has too.
    """
    try:
        if len(dump(record)) > MAX_CHARACTERS:
            raise ValueError(f"has more than {MAX_CHARACTERS:,} characters")
        values: dict[str, Any] = {}
        for f in FIELDS:
            *above, name = _path_in_record(f)
            part = record[above[0]] if above else record
            if name in part or "when" not in f.metadata:
                values[f.name] = part[name]
        for name in PARTS:
            values[name] = Component(**{f.name: record[name][f.name] for f in fields(Component)})
        values["origins"] = {name: read_origin(one) for name, one in record["origins"].items()}
        values["execution"] = Execution(**{f.name: values.pop(f.name) for f in fields(Execution) if f.name in values})
        spec = RunSpec(**values)
        for part in (spec, spec.sampler, spec.schedule, spec.task, spec.execution):
            check(part)
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"is not a complete record of a run: {error}") from None
    except Malformed as error:
        raise ValueError(f"is not a possible run: {error}") from None
    parts = spec.substeps
    lengths = (spec.steps, spec.burn_in, spec.thin)
    if not 1 <= parts <= MOST_SUBSTEPS or parts & (parts - 1) or any(length % parts for length in lengths):
        raise ValueError(f"is not a possible run: {parts} substeps of {lengths} steps, burn-in and thinning")
    if spec.burn_in >= spec.steps:
        raise ValueError(f"is not a possible run: a burn-in of {spec.burn_in} steps leaves nothing of {spec.steps}")
    return spec


def recorded_key(record: Mapping[str, Any], *without: str) -> str:
    """Return the key of the run in a stored record, computed again from its parts; "" if parts are missing.

    The key without "seed" is the run's group.
    """
    try:
        parts = {name: record[name] for name in ("key_version", "engine")}
        for f in FIELDS:
            name = f.name
            if "at" in f.metadata or f.metadata.get("label") or ("when" in f.metadata and name not in record):
                continue
            value = record[name]
            parts[name] = {n: v for n, v in value.items() if n != "target"} if name in PARTS else value
        return _digest({name: part for name, part in parts.items() if name not in without})
    except (KeyError, AttributeError, TypeError, ValueError, RecursionError):
        return ""


def _path_in_record(f: Field[Any]) -> list[str]:
    return str(f.metadata.get("at", f.name)).split(".")


def _counts(f: Field[Any], value: Any, device: str) -> bool:
    """Return whether a field with this value is part of a run's key."""
    default = f.default if f.default is not MISSING else None
    when = {"cuda": device != "cpu", "set": value != default}
    return not f.metadata.get("label") and when.get(f.metadata.get("when", ""), True)


def _digest(record: Mapping[str, Any]) -> str:
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
