"""`Bench`: plan, run and read results. The command line, notebooks, agents and all verbs work through it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.application.application import Application
from harness.contracts.parameters import schema, suggestions
from harness.system.errors import RunError, UsageError

if TYPE_CHECKING:
    import polars as pl

    from harness.application.results import Filter, Results
    from harness.contracts.data import DataFile
    from harness.reporting.report import Result
    from harness.results.spec import RunSpec
    from harness.runs.job import Job
    from harness.runs.local import LaunchSummary, Place
    from harness.runs.plan import Planned, RunRequest

    Named = str | type | Any
    """A plugin by name, by class, or an instance with its settings."""

MANY_RUNS = 1000
"""Number of runs above which the plan is announced, because planning takes over a second."""
DRAWS = ("some", "all", "none")
"""Which draws are kept on disk: see `Bench.run`."""
_PARTS = {"samplers": "sampler", "schedules": "schedule", "tasks": "task"}


class Bench(Application):
    """The application: a results folder and all that is done with it.

        bench = harness.Bench("bench-results", plugins=["my_sampler.py"])
        bench.plan("sgld,csgld", "mixture25", seeds=range(5), budget="quick")
        results = bench.run(["sgld", MySampler(share=0.3)], "mixture25", seeds=range(5), chains=8)
        results.report("leaderboard")

    results  the results folder; default: that of BENCH_RESULTS, else ./bench-results
    plugins  plugin files, as for `bench --plugin FILE`

    Every verb of `bench` that a plugin offers is a method too, with the same options: `bench.compare("psgld", "sgld")`.
    """

    def __repr__(self) -> str:
        files = f", {len(self.plugins)} plugin files" if self.plugins else ""
        return f"Bench of {self.results}{files}"

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return a plugin's verb as a method."""
        if name.startswith("_"):
            raise AttributeError(name)
        from harness.contracts.registry import load

        verbs = self.registry.names("verbs")
        if name not in verbs:
            raise AttributeError(f"Bench has no {name!r}{suggestions(name, verbs)}")
        verb = load(self.registry.target("verbs", name))
        if not callable(verb) or not hasattr(verb, "__name__"):
            raise AttributeError(f"`bench {name}` has verbs of its own, which Python cannot call")

        def call(*given: Any, **options: Any) -> Any:
            return verb(
                self, *map(self._by_name, given), **{key: self._by_name(value) for key, value in options.items()}
            )

        return functools.wraps(verb)(call)

    # What a user does.

    def plan(self, samplers: Named | Sequence[Named], tasks: Named | Sequence[Named], **asked: Any) -> pl.DataFrame:
        """Return a frame with a row for each run that `run` would do or finds done, and its cost. Runs nothing.

        The arguments are those of `run` that decide which runs there are.
        """
        import polars as pl

        from harness.application.arguments import check_execution
        from harness.contracts.registry import load

        options = {name: asked.pop(name) for name in ("devices", "workers", "max_runs", "forecast") if name in asked}
        check_execution(**{name: value for name, value in options.items() if name != "forecast"})
        verb = load(self.registry.target("verbs", "plan"))
        records = [*verb(self, self.requests(samplers, tasks, **asked), **options).records]
        return pl.DataFrame(records, infer_schema_length=None)

    def run(
        self,
        samplers: Named | Sequence[Named],
        tasks: Named | Sequence[Named],
        *,
        devices: str = "auto",
        workers: int | None = None,
        draws: str = "some",
        retry: bool = False,
        timeout: float | None = None,
        max_runs: int | None = None,
        **asked: Any,
    ) -> Results:
        """Run samplers on tasks and return the results of these rows, on all seeds that the folder has of them.

        It does what `bench run` does, and nothing twice.

        samplers, tasks  names ("sgld,csgld", a list), classes, or instances with their settings, in any mixture
        seeds            numbers, or a text such as "0-9"; default: the protocol's
        chains           chains of each run; default: the protocol's
        budget           smoke, quick, paper, "steps=N" or "passes=N"
        schedule         instead of the default one: a name, a class or an instance
        settings         further settings by name, {"sampler.a": 5, "task.batch": 64}
        sweep            {"schedule.step_size": [0.01, 0.1]}: a run for each value
        study            use the tuned settings of this study
        devices          cpu, or cuda:0,cuda:1; auto: every GPU for networks, else the CPU
        workers          processes; default: one per core
        draws            kept on disk: some (64 MiB a run, none for networks), all, none
        retry            run failed runs again
        timeout          seconds after which runs that advance together end with the status timeout

        A class or instance need not be a plugin: the source of a class of a script or a notebook is kept in the results
        folder, and workers import it from there. Raises `UsageError` before the first step for what cannot be run.
        Ctrl-C stops the workers, and what is finished is kept. Runs that fail are rows with their reason; `RunError` if
        none began.
        """
        from harness.application.arguments import check_execution
        from harness.application.results import selected

        check_execution(devices, workers, timeout, max_runs, retry=retry)
        kept = {"retry": retry, "timeout": timeout, "draws": draws}
        planned, places = self.prepared(self.requests(samplers, tasks, **asked), devices, workers, max_runs)
        outcome = self.execute(planned, places, long_is_fine=True, **kept)
        specs = [outcome.instead.get(item.spec.key, item).spec for item in planned]
        if all(self.ledger.standing(spec.key).attempt is None for spec in specs):
            raise RunError(f"none of the {len(specs)} runs began; the messages say why")
        return selected(self, {"task": {spec.task.name for spec in specs}}, {spec.group for spec in specs})

    def compare_on(self, model: Any, train: Any, test: Any, **asked: Any) -> Results:
        """Compare samplers on a torch model and data of your own, within a given time; docs/my-model.md.

        model        a torch module, or a function that makes one
        train, test  a pair (x, y) of arrays, a torch Dataset or DataLoader, or a path to a .csv or .npz file

        likelihood, prior_precision or weight_decay, batch, unseen, metrics, shifts, samplers, budget, seeds, chains,
        devices, workers, name: the page explains them. Raises `UsageError` before the first step if it cannot run.
        """
        return self.registry.facts("compare-on")[0](self, model, train, test, **asked)

    def load(self, **filters: Filter) -> Results:
        """Return the results in the folder, or those that filters select: task, method, protocol, budget, chains."""
        from harness.application.results import selected

        return selected(self, filters)

    def report(self, name: str, *, metric: str | None = None, **filters: Filter) -> Result:
        """Return a report of the results, as `bench report NAME` makes it."""
        return self.load().report(name, metric=metric, **filters)

    def figure(self, report: str, **options: Any) -> Any:
        """Return the only figure of a report as a matplotlib Figure; see `Results.figure`."""
        return self.load().figure(report, **options)

    def sql(self, query: str) -> pl.DataFrame:
        """Return the answer to a query, as `bench sql` does: read-only."""
        return self.store().frame(query)

    # What verbs are made of.

    def requests(
        self,
        samplers: Named | Sequence[Named],
        tasks: Named | Sequence[Named],
        *,
        seeds: str | Iterable[int] | None = None,
        chains: int | None = None,
        budget: str = "paper",
        schedule: Named | None = None,
        settings: Mapping[str, Any] | None = None,
        sweep: Mapping[str, Sequence[Any]] | None = None,
        study: str = "",
    ) -> list[RunRequest]:
        """Return a request for each sampler and task; see `run`. Classes that no plugin offers are kept as files."""
        from harness.application.arguments import check
        from harness.runs.plan import RunRequest, parse_seeds

        check(seeds, chains, budget, study, settings, sweep)
        text = seeds if isinstance(seeds, str) or seeds is None else ",".join(map(str, seeds))
        numbers = None if text is None else parse_seeds(text)
        scheduled = {} if schedule is None else self._named("schedules", schedule)[1]
        requests = []
        for sampler, of_sampler in map(functools.partial(self._named, "samplers"), _several(samplers)):
            for task, of_task in map(functools.partial(self._named, "tasks"), _several(tasks)):
                given = {**scheduled, **of_sampler, **of_task, **(settings or {})}
                requests.append(RunRequest([sampler], [task], numbers, chains, budget, given, sweep or {}, study=study))
        if not requests:
            raise UsageError("no sampler or no task is given")
        return requests

    def places(self, devices: str, workers: int | None, tasks: Sequence[str] = ()) -> tuple[str, list[Place]]:
        """Return the kind of device, which is part of run keys, and where workers run: on each device, or on the CPU.

        The tasks decide on "auto". On the CPU there are `workers`, by default one per core. With --launcher the workers
        are those of all its jobs.
        """
        from harness.application.launch import devices_for
        from harness.runs import local

        kind, named = devices_for(self, devices, tasks)
        return kind, local.slots(named, len(named) if self.launching else workers)

    def check_size(self, requests: Sequence[RunRequest], most: int | None = None) -> None:
        """Raise `UsageError` before planning more than `most` runs, by default `MAX_RUNS`; announce a long planning."""
        from harness.runs.plan import MAX_RUNS, size

        runs = size(self.registry, requests, MAX_RUNS if most is None else most)
        if runs > MANY_RUNS:
            self.say(f"planning {runs:,} runs")

    def prepared(
        self, requests: Sequence[RunRequest], devices: str, workers: int | None, most: int | None
    ) -> tuple[list[Planned], list[Place]]:
        """Return the runs of the requests, planned for the kind of these devices, and where workers run."""
        kind, places = self.places(devices, workers, [name for request in requests for name in request.tasks])
        return self.planned([replace(request, device=kind) for request in requests], most), places

    def planned(self, requests: Sequence[RunRequest], most: int | None = None) -> list[Planned]:
        """Return each run of the requests once, with its standing and its cost; see `check_size` for `most`."""
        from harness.runs.plan import plan, tuning_notes

        self.ledger.check_version()
        for named in self.registry.facts("samplers"):
            requests = named(self, requests)
        self.check_size(requests, most)
        runs = [item for asked in requests for item in plan(self.registry, asked, self.ledger)]
        for note in tuning_notes(item.spec for item in runs):
            self.say(f"note: {note}")
        return list({item.spec.key: item for item in runs}.values())

    def execute(self, planned: Sequence[Planned], places: Sequence[Place], **how: Any) -> LaunchSummary:
        """Do the planned runs that are missing; see `harness.application.launch.execute`."""
        from harness.application.launch import execute

        if (draws := how.get("draws", "some")) not in DRAWS:
            raise UsageError(f"--draws {draws!r} is not one of {', '.join(DRAWS)}")
        return execute(self, planned, places, **how)

    def job(self, specs: Sequence[RunSpec], data: Sequence[DataFile] = (), device: str = "cpu") -> Job:
        """Return a job for one worker that does something else with these runs than execute them."""
        from harness.runs.job import Job

        return Job(list(specs), self.results, device, device, 1, self.plugins, self.registry.distributions, tuple(data))

    def _named(self, kind: str, given: Named) -> tuple[str, dict[str, Any]]:
        """Return a plugin's name and the settings of an instance, by name; for a schedule its name is one of them."""
        part = _PARTS[kind]
        if isinstance(given, str):
            return given, {"schedule": given} if part == "schedule" else {}
        cls = given if isinstance(given, type) else type(given)
        name = self._offered(kind, cls)
        settings = {} if isinstance(given, type) else _settings(part, given)
        return name, {"schedule": name, **settings} if part == "schedule" else settings

    def _by_name(self, value: Any) -> Any:
        """Return an argument of a verb: a class of a plugin, or of the caller, by its name."""
        if isinstance(value, list | tuple):
            return [self._by_name(one) for one in value]
        kinds = [kind for kind, base in _bases().items() if isinstance(value, type) and issubclass(value, base)]
        return self._offered(kinds[0], value) if kinds else value

    def _offered(self, kind: str, cls: type) -> str:
        """Return the name of the offer of a class; one that no plugin offers becomes a plugin file."""
        if not issubclass(cls, _bases()[kind]):
            raise UsageError(f"{cls.__name__} is not a harness.{'tasks.' * (kind == 'tasks')}{_bases()[kind].__name__}")
        target = f"{cls.__module__}:{cls.__qualname__}"
        for offer in self.registry.offers(kind):
            if offer.target == target:
                return f"{offer.distribution}:{offer.name}"
        path, name = self.registry.facts("definition")[0](cls, kind, self.results)
        if str(path) not in self.plugins:
            self.plugins = (*self.plugins, str(path))
        return name


def _bases() -> dict[str, type]:
    """Return the base class of each kind of plugin that may be a class of the caller."""
    import harness

    return {"samplers": harness.Sampler, "schedules": harness.Schedule, "tasks": harness.tasks.Task}


def load(path: str | Path | None = None, *, plugins: Sequence[str] = (), **filters: Filter) -> Results:
    """Read a results folder, including its new runs, or an exported one. Only its database is changed.

        results = harness.load("bench-results", task="mixture25", method=["sgld", "csgld"])
        results.metrics.filter(pl.col("is_primary"))

    path     the results folder, or an exported one; default: BENCH_RESULTS, else ./bench-results
    plugins  plugin files, as for `bench --plugin FILE`
    filters  task (also TASK@PROTOCOL), method, protocol, budget, chains: only these runs

    Problems in single runs are warnings. Raises `DataError` if the folder does not exist or a newer version wrote it,
    `UsageError` for an unknown name. A database of another version is not changed, and the runs are read instead.
    """
    return Bench(path, plugins=plugins).load(**filters)


def compare_on(model: Any, train: Any, test: Any, *, results: str | Path | None = None, **asked: Any) -> Results:
    """Compare samplers on a torch model and data of your own, in a results folder; see `Bench.compare_on`."""
    return Bench(results).compare_on(model, train, test, **asked)


def _settings(part: str, instance: Any) -> dict[str, Any]:
    """Return the settings of an instance by name, without those that are None."""
    values = {spec.name: getattr(instance, spec.name) for spec in schema(type(instance))}
    return {f"{part}.{name}": value for name, value in values.items() if value is not None}


def _several(given: Named | Sequence[Named]) -> list[Named]:
    """Return plugins as a list; a text may name several, "a,b"."""
    from harness.system.text import words

    listed = [given] if isinstance(given, str | type) or not isinstance(given, Iterable) else [*given]
    return [one for item in listed for one in (words(item) if isinstance(item, str) else [item])]
