"""Results in Python: a results folder as frames, arrays, reports and figures."""

from __future__ import annotations

import functools
import io
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.application import draws
from harness.application.application import Application
from harness.contracts.randomness import TUNING_SEED
from harness.contracts.registry import load as load_target
from harness.reporting.rendering import figures
from harness.reporting.report import Result
from harness.reporting.requests import FILTERS, build, find_report, request_for, why_empty
from harness.system.errors import DataError, UsageError
from harness.system.text import count, words

if TYPE_CHECKING:
    import polars as pl

    from harness.application.draws import Draws
    from harness.reporting.report import Request
    from harness.reporting.tables import Figure
    from harness.results.store import Store

Filter = str | int | Iterable[str | int] | None
"""Names as in "a,b", or a list of names. None selects all."""

_ORDER = "order by task, protocol, budget, chains, method, group_key, seed"
_METRICS = (
    "run_key, group_key, task, protocol, budget, chains, method, seed, status, metric, metric_version, value, unit, "
    "direction, is_primary, passes, seconds_sampling, row_number() over (partition by attempt "
    "order by metric = 'joint_error' desc, is_primary desc) = 1 as is_main"
)
_CURVES = """
select run_key, group_key, task, protocol, budget, chains, method, seed, curve, own as chain, x,
    y[own * len(x) + 1 : (own + 1) * len(x)] as y
from result join (
    select attempt, name as curve, x, y, unnest(range(len(y) // greatest(len(x), 1))) as own from curve_points
) using (attempt)
"""
"""The view `curve` has a row for each point, so it would take thirty times the memory."""


def selected(app: Application, filters: Mapping[str, Filter], groups: Iterable[str] = ()) -> Results:
    """Return the runs of a results folder that filters select, of these groups if any are given.

    Raises what `load` raises.
    """
    app.ledger.check_version()
    if not app.results.is_dir():
        raise DataError(
            f"there is no results folder {app.results}; `bench run` makes one, in ./bench-results by default"
        )
    store = app.unread_store()
    for note in store.refresh(replace=False):
        warnings.warn(note, stacklevel=3)
    return Results(app, store, replace(request_for(store, app.registry, _words(filters)), groups=tuple(groups)))


class Results:
    """The runs of a results folder that `Bench.run`, `Bench.load` or `harness.load` selected."""

    def __init__(self, app: Application, store: Store, request: Request) -> None:
        self.path = store.results
        self._app, self._store, self._request = app, store, request
        self._registry = app.registry

    def __repr__(self) -> str:
        counts = {"run": len(self.runs), **{name: self.runs[name].n_unique() for name in ("method", "task")}}
        return f"Results of {self.path}: " + ", ".join(count(n, noun) for noun, n in counts.items())

    @property
    def tasks(self) -> list[str]:
        """The tasks with their protocols, "mixture25@csgmcmc", as the filter `task` takes them."""
        return sorted(f"{row['task']}@{row['protocol']}" for row in self.runs.unique(("task", "protocol")).to_dicts())

    @functools.cached_property
    def runs(self) -> pl.DataFrame:
        """One row per run, without trials of `bench tune`: `run_status` in docs/data-dictionary.md has the columns."""
        return self._frame(f"select * from (from run_status where seed < {TUNING_SEED})")  # noqa: S608 - a constant

    @functools.cached_property
    def metrics(self) -> pl.DataFrame:
        """One row per metric of a finished run. `is_main` marks what ranks: the joint error, or the primary."""
        return self._frame(f"select {_METRICS} from run_metric", ", metric")  # noqa: S608 - names of ours

    @functools.cached_property
    def curves(self) -> pl.DataFrame:
        """One row per curve and chain of a finished run, with lists x and y. A curve of the whole run has chain 0.

        `curves.explode("x", "y")` has a row for each point.
        """
        return self._frame(_CURVES, ", curve, own")

    def sql(self, query: str) -> pl.DataFrame:
        """Return the answer to a query, as `bench sql` does: it is about the whole folder, and read-only."""
        return self._store.frame(query)

    def report(self, name: str, *, metric: str | None = None, **filters: Filter) -> Result:
        """Return a report, as `bench report NAME` makes it. `frame()` has what its tables show, `frame("all")` all."""
        request = self._narrowed(filters, metric)
        result = build(find_report(self._registry, name), name, self._store, request)
        return replace(result, notes=[*result.notes, *why_empty(result, name, self._store, request)])

    def compare(
        self,
        a: str,
        b: str,
        *,
        metric: str | Iterable[str] | None = None,
        differs: str | Iterable[str] | None = None,
        **filters: Filter,
    ) -> Result:
        """Compare two rows of these tasks, paired by seed, as `bench compare A B` does.

        a, b    methods, labels of rows, or the beginning of group keys
        metric  the metrics; default: the joint error, data passes to low error, and the primary metric
        differs what the comparison is about, if the rows differ in it: schedule, warm-start, batch, price, tuning
        """
        asked = {"metric": words(metric) or None, "differs": words(differs) or None}
        of = Results(self._app, self._store, self._narrowed(filters))
        return self._registry.facts("compare")[0](self._app, a, b, task=of.tasks, within=of._request, **asked)

    def cite(self, **filters: Filter) -> Result:
        """Return the BibTeX of the papers behind the methods, schedules, tasks and protocols of these runs.

        `print` shows it, and `frame()` has a row for each paper.
        """
        of = Results(self._app, self._store, self._narrowed(filters))
        names = {*of.runs["method"], *of.runs["schedule"], *of.tasks}
        return self._verb("cite", sorted(names))

    def figures(self, report: str, *, metric: str | None = None, **filters: Filter) -> dict[str, Any]:
        """Return the figures of a report as matplotlib Figures, by name."""
        figures_of_report = self.report(report, metric=metric, **filters).figures
        return {figure.name: _shown(figure) for figure in figures_of_report}

    def figure(
        self,
        report: str,
        *,
        metric: str | None = None,
        title: str | None = None,
        size: tuple[float, float] | None = None,
        **filters: Filter,
    ) -> Any:
        """Return the only figure of a report as a matplotlib Figure. `title` and `size` (inches) replace its own.

        Raises `UsageError` if the report has several figures of these runs, or none.
        """
        result = self.report(report, metric=metric, **filters)
        if len(result.figures) != 1:
            names = ", ".join(figure.name for figure in result.figures[:8])
            reasons = "; ".join(result.notes[:8]) or "no results match"
            raise UsageError(
                f"report {report} has {len(result.figures)} figures of these runs ({names}); "
                f"narrow them by {', '.join(FILTERS)}, or take all by figures()"
                if names
                else f"report {report} has no figure of these runs: {reasons}"
            )
        (figure,) = result.figures
        return _shown(replace(figure, size=size or figure.size, title=title))

    def draws(self, run: str = "", *, seed: int | None = None, **filters: Filter) -> Draws:
        """Return the kept draws of one run, selected by the beginning of its key, or by filters and its seed.

        Raises `UsageError` if several runs or none are selected, `DataError` if the run kept no draws.
        """
        return draws.read(self.path, self._registry, draws.only_run(self._chosen(run, seed, filters)))

    def to_arviz(self, run: str = "", *, seed: int | None = None, rows: int = 50, **filters: Filter) -> Any:
        """Return the draws of a group of runs as an xarray DataTree for ArviZ, with the chains of all seeds.

        run      the beginning of a group key or of a run key, if the filters do not select one group
        rows     number of test rows; for a network, their predicted probabilities replace its weights

        The runs of a group differ only in their seed. Weighted draws are resampled, and the attributes say so. Needs
        arviz-base: `pip install sgmcmc-bench[arviz]`. Raises the same errors as `draws`.
        """
        group = draws.only_group(self._chosen(run, seed, filters))
        read = functools.partial(draws.read, self.path, self._registry)
        return self._registry.facts("arviz")[0](self._store, group, self._registry, rows, read)

    def _verb(self, name: str, *given: Any, **options: Any) -> Result:
        result: Result = load_target(self._registry.target("verbs", name))(self._app, *given, **options)
        return result

    def _chosen(self, run: str, seed: int | None, filters: Mapping[str, Filter]) -> list[dict[str, Any]]:
        """Return the finished runs that the key, the seed and the filters select."""
        query, values = _where("select * from result", self._narrowed(filters))
        rows = self._store.rows(f"{query} {_ORDER}", values)
        return [
            row
            for row in rows
            if row["run_key"].startswith(run) or row["group_key"].startswith(run)
            if seed is None or row["seed"] == seed
        ]

    def _narrowed(self, filters: Mapping[str, Filter], metric: str | None = None) -> Request:
        """Return the request of this object, with the given filters in place of its own."""
        request = self._request
        selected_by = {"task": request.tasks, "method": request.methods, "protocol": request.protocols}
        selected_by |= {"budget": request.budgets, "chains": tuple(map(str, request.chains))}
        wanted = {name: [*values] for name, values in selected_by.items()} | _words(filters)
        return replace(request_for(self._store, self._registry, wanted, metric), groups=request.groups)

    def _frame(self, query: str, order: str = "") -> pl.DataFrame:
        query, values = _where(query, self._request)
        return self._store.frame(f"{query} {_ORDER}{order}", values)


def _shown(figure: Figure) -> Any:
    """Draw a figure. A notebook shows it even if pyplot was not imported."""
    picture = figures.picture(figure)
    vars(picture)["_repr_png_"] = functools.partial(_png, picture)
    return picture


def _png(picture: Any) -> bytes:
    in_memory = io.BytesIO()
    picture.savefig(in_memory, format="png")
    return in_memory.getvalue()


def _where(query: str, request: Request) -> tuple[str, list[Any]]:
    """Return a query on runs with the conditions of a request, and the values of its parameters."""
    wanted = (request.tasks, request.methods, request.protocols, request.budgets, request.chains, request.groups)
    asked = {name: list(values) for name, values in zip((*FILTERS, "group_key"), wanted, strict=True) if values}
    conditions = " and ".join(f"list_contains(?, {name})" for name in asked)
    return f"{query} where {conditions}" if asked else query, list(asked.values())


def _words(filters: Mapping[str, Filter]) -> dict[str, list[str]]:
    unknown = [name for name in filters if name not in FILTERS]
    if unknown:
        raise UsageError(f"there is no filter {unknown[0]!r}; the filters are {', '.join(FILTERS)}")
    named = {}
    for name, value in filters.items():
        values = [value] if isinstance(value, str | int) else value or []
        named[name] = words(map(str, values))
    return named
