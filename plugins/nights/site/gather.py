"""The data for the pages, from a store: fields, rows with their runs, tasks and methods."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness import BenchError, Info, Method, Registry, Result
from harness.contracts import HARNESS, Offer, plugin_code
from harness.reporting import is_hash
from harness.reporting.commands import run_command
from harness.reports import (
    Column,
    FieldScore,
    Group,
    Request,
    Store,
    Table,
    number,
    score_fields,
    setting_text,
    settings_from,
    typical,
)
from harness.tasks import TUNING_SEED
from plugins.inspection.shown import offers
from plugins.inspection.shown.sections import sections as blocks_of
from plugins.inspection.shown.task import task as task_record
from plugins.nights.site.model import Record, SiteField, SiteRow, Subject
from plugins.papers.references import parsed, references

RUNS = f"""
select group_key, run_key, method, schedule, task, protocol, budget, chains, seed, status, reason, step, passes,
    seconds_sampling, draws_kept, origins, strftime(finished, '%Y-%m-%d %H:%M') as finished, environment, attempt
from run_status where seed < {TUNING_SEED} order by group_key, seed, run_key
"""  # noqa: S608 - a constant
ENVIRONMENTS = """
select environment, bench, python, torch, coalesce(gpu, cpu) as processor from environment
"""
CODE = """
select attempt, distribution, version, git_commit, dirty from plugin semi join run_status using (attempt) order by all
"""
VALUES = "select run_key, metric, value from run_metric order by run_key, is_primary desc, metric"
MOST_AUTHORS = 4
CHANGED = ("user", "swept")
"""Provenances of settings that the command chose."""
LEAST_FAILED = 0.005
"""Share of failed chains from which a row carries it: it is shown in whole percent."""
KEY_DIGITS = 12
"""Digits of a run key in a command: among a million runs, two have the same with a chance of 2e-3."""


def fields(store: Store, request: Request, leaderboard: Result, convergence: Result) -> list[SiteField]:
    """Return the fields of a store in the order of the report leaderboard, from the results of these two reports."""
    facts = _Facts(store, convergence)
    records: dict[str, list[Record]] = {}
    for record in leaderboard.records:
        records.setdefault(str(record.get("group")), []).append(record)
    tables = {
        str(row["group"]): table
        for table in leaderboard.tables
        if isinstance(table, Table)
        for row in table.rows
        if "group" in row
    }
    site_fields = []
    for score in score_fields(store, request):
        rows = [_row(score, group, records.get(group.key, []), facts) for group in score.groups]
        rows.sort(key=lambda row: (row.rank is None, row.rank or 0, row.label))
        first = score.groups[0]
        table = next((tables[row.key] for row in rows if row.key in tables), None)
        site_fields.append(
            SiteField(
                title=score.title, task=first.task, protocol=first.protocol, budget=first.budget, chains=first.chains,
                steps=max(group.steps for group in score.groups),
                metric=_ranking(rows, records), rows=rows, table=_with_exact(table, facts) if table else _plain(rows),
            )
        )  # fmt: skip
    return site_fields


def _ranking(rows: Sequence[SiteRow], records: Mapping[str, Sequence[Record]]) -> str:
    by = [str(record["metric"]) for row in rows for record in records.get(row.key, ()) if record.get("ranked_by")]
    return by[0].replace("_", " ") if by else ""


def _with_exact(table: Table, facts: _Facts) -> Table:
    """Return a table of the leaderboard with how far each row is from exact draws, if that is known of any."""
    known = {
        key: away
        for key, runs in facts.runs.items()
        if (away := facts.exact.get(runs[0]["run_key"], {}).get("sd_from_exact")) is not None
    }
    rows = [{**row, "sd_from_exact": known.get(str(row.get("group")))} for row in table.rows]
    if all(row["sd_from_exact"] is None for row in rows):
        return table
    column = Column("sd_from_exact", "sd from exact", "right", number)
    return replace(table, columns=[*table.columns, column], rows=rows)


def _plain(rows: Sequence[SiteRow]) -> Table:
    columns = [Column("label", "row"), Column("seeds", "seeds", "right"), Column("status", "status")]
    return Table("", columns, [{"label": r.label, "seeds": r.seeds, "status": r.status, "group": r.key} for r in rows])


class _Facts:
    """The runs of a store by group, the values of each run, the code of each attempt, and what exact draws have."""

    def __init__(self, store: Store, convergence: Result) -> None:
        self.exact = {str(record["run_keys"][0]): record for record in convergence.records if record.get("run_keys")}
        self.runs: dict[str, list[dict[str, Any]]] = {}
        for run in store.rows(RUNS):
            self.runs.setdefault(run["group_key"], []).append(run)
        self.values: dict[str, dict[str, float | None]] = {}
        for key, metric, value in store.table(VALUES)[1]:
            self.values.setdefault(key, {})[metric] = value
        self.environments = {row["environment"]: row for row in store.rows(ENVIRONMENTS)}
        self.code: dict[str, list[dict[str, Any]]] = {}
        for row in store.rows(CODE):
            self.code.setdefault(row["attempt"], []).append(row)


def _row(score: FieldScore, group: Group, records: Sequence[Record], facts: _Facts) -> SiteRow:
    by = next((record for record in records if record.get("ranked_by")), {})
    runs = facts.runs.get(group.key, [])
    seconds = group.seconds
    passes = typical(group.done.numbers.passes)
    shown = [
        ("protocol", group.protocol), ("budget", f"{group.budget}, {group.steps:,} steps"),
        ("chains", str(group.chains)), ("seeds", str(len(group.runs))),
        ("joint error of as many exact draws", _exact(facts.exact.get(runs[0]["run_key"], {}) if runs else {})),
        ("data passes of a chain", number(passes) if passes else ""),
        ("seconds a run", number(seconds) if seconds else "not timed"),
        *group.caveats.items(),
        ("settings tuned", group.tuned), ("given by the task", ", ".join(group.given)),
        ("group key", group.key[:KEY_DIGITS]),
    ]  # fmt: skip
    tables = (_metrics(records), _runs(runs, facts), _settings(group, runs), _environments(runs, facts))
    return SiteRow(
        key=group.key, label=score.labels[group.key], method=group.method, task=group.task, protocol=group.protocol,
        budget=group.budget, chains=group.chains, seeds=len(group.runs), rank=by.get("rank"),
        verdict=by.get("verdict") or "",
        value=_value(by), mean=by.get("mean"), low=by.get("low"), high=by.get("high"),
        status=str(by.get("status") or "no result"), seconds=seconds, cost=_cost(records),
        caveats=_caveats(group, by, records),
        preference=(_kind(group), max((run.attempt for run in group.runs), default="")),
        runs=[run["run_key"] for run in runs],
        facts=[(label, text) for label, text in shown if text], tables=[table for table in tables if table.rows],
        commands=_commands(runs),
    )  # fmt: skip


def _exact(record: Record) -> str:
    """Return what as many independent draws would have, and how far a row is from it, in its sd over as many chains."""
    if record.get("exact_draws") is None or record.get("times_exact") is None:
        return ""
    sd = record.get("sd_from_exact")
    away = "" if sd is None else f", {number(abs(sd))} sd {'above' if sd > 0 else 'below'} it"
    return f"{number(record['exact_draws'])}; this row has {number(record['times_exact'])} times that{away}"


def _cost(records: Sequence[Record]) -> float | None:
    """Return the data passes to low error of a row, from its records: infinite if it was never reached."""
    return next((record["mean"] for record in records if record["metric"] == "passes_to_low_error"), None)


def _kind(group: Group) -> int:
    """Return which rows stand for a method first: tuned by the newest rules, then untouched, then the command's."""
    if settings_from(group, "tuned"):
        return 3 + group.tuning_version
    return 0 if settings_from(group, *CHANGED) else 2


def _caveats(group: Group, ranking: Record, records: Sequence[Record]) -> list[str]:
    """Return what a reader has to know of a row before comparing it, each in a few words."""
    status = str(ranking.get("status") or "no result")
    unranked = [] if ranking.get("rank") is not None else [status.partition(":")[0]]
    chosen = ["settings of the command"] if settings_from(group, *CHANGED) else []
    given = [f"given {', '.join(group.given)}"] if group.given else []
    kind = ["optimiser"] if group.optimiser else []
    share = next((record["mean"] for record in records if record["metric"] == "failed_chains"), None)
    failed = [f"{share:.0%} of chains failed".replace("%", " %")] if share and share >= LEAST_FAILED else []
    return list(dict.fromkeys([*unranked, *group.caveats, *failed, *kind, *given, *chosen]))


def _value(record: Record) -> str:
    mean, low, high = (record.get(name) for name in ("mean", "low", "high"))
    if mean is None:
        return str(record.get("remark") or "")
    if record["metric"] == "passes_to_low_error" and math.isinf(mean):
        return "not reached"
    ends = f" [{number(low)}, {number(high)}]" if low is not None and high is not None and low != high else ""
    return f"{number(mean)}{ends}"


def _metrics(records: Sequence[Record]) -> Table:
    best = {"min": "lower", "max": "higher"}
    rows = [
        {
            "metric": str(r["metric"]).replace("_", " "), "value": _value(r), "interval": r["interval"],
            "unit": "" if r["unit"] == "1" else r["unit"],
            "best": best.get(r["direction"]) or (f"at {number(r['target'])}" if r["target"] is not None else "none"),
            "rank": r["rank"], "verdict": r["verdict"],
        }
        for r in records
    ]  # fmt: skip
    columns = [
        Column("metric", "metric"), Column("value", "mean over seeds", "right"), Column("unit", "unit"),
        Column("interval", "interval"), Column("best", "better is"), Column("rank", "rank", "right"),
        Column("verdict", "verdict"),
    ]  # fmt: skip
    return Table("Metrics", columns, rows)


def _runs(runs: Sequence[Record], facts: _Facts) -> Table:
    metrics = list(dict.fromkeys(name for run in runs for name in facts.values.get(run["run_key"], ())))
    rows = [
        {
            **run, "run": run["run_key"][:KEY_DIGITS], "replay": f"bench replay {run['run_key'][:KEY_DIGITS]}",
            **{f"metric {name}": facts.values.get(run["run_key"], {}).get(name) for name in metrics},
        }
        for run in runs
    ]  # fmt: skip
    columns = [
        Column("seed", "seed", "right"), Column("run", "run key"), Column("status", "status"),
        *([Column("reason", "reason")] if any(run["reason"] for run in runs) else []),
        *(Column(f"metric {name}", name.replace("_", " "), "right", number) for name in metrics),
        Column("passes", "data passes", "right", number), Column("seconds_sampling", "seconds", "right", number),
        Column("draws_kept", "draws", "right"), Column("finished", "finished, UTC"),
        Column("replay", "repeat bit for bit"),
    ]  # fmt: skip
    return Table("Runs", columns, rows, keys=2)


def _settings(group: Group, runs: Sequence[Record]) -> Table:
    """Return a table of every setting with the source that the runs recorded; hashes of code and data come last."""
    origins = json.loads(runs[0]["origins"]) if runs else {}
    names = sorted({*group.settings, *origins} - {"sampler", "schedule"}, key=lambda name: (is_hash(name), name))
    rows = [
        {
            "setting": name,
            "value": _setting(group.settings.get(name, origins.get(name, {}).get("value"))),
            "provenance": group.provenance.get(name) or origins.get(name, {}).get("provenance"),
            "source": origins.get(name, {}).get("source"),
        }
        for name in ["sampler", "schedule", *names]
    ]
    columns = [Column(name, name) for name in ("setting", "value", "provenance", "source")]
    return Table("Settings", columns, rows)


def _setting(value: Any) -> str:
    return "none" if value is None else setting_text(value)


def _environments(runs: Sequence[Record], facts: _Facts) -> Table:
    seeds: dict[tuple[Any, ...], list[str]] = {}
    for run in runs:
        for code in facts.code.get(run["attempt"], ()):
            same = tuple(code[name] for name in ("distribution", "version", "git_commit", "dirty"))
            seeds.setdefault((run["environment"], *same), []).append(str(run["seed"]))
    rows = [
        {
            "seeds": ", ".join(numbers), "distribution": distribution, "version": version,
            "commit": (commit or "")[:KEY_DIGITS], "dirty": "with uncommitted changes" if dirty else "",
            **facts.environments.get(environment, {}),
        }
        for (environment, distribution, version, commit, dirty), numbers in seeds.items()
    ]  # fmt: skip
    columns = [
        Column("distribution", "code"), Column("version", "version"), Column("commit", "commit"),
        Column("dirty", ""), Column("seeds", "seeds"), Column("python", "Python"), Column("torch", "torch"),
        Column("processor", "processor"),
    ]  # fmt: skip
    if not any(row["dirty"] for row in rows):
        columns = [column for column in columns if column.key != "dirty"]
    return Table("Code and machine", columns, rows)


def _commands(runs: Sequence[Record]) -> list[tuple[str, str]]:
    """Return the commands that run a row again, that repeat its first run bit for bit, and that show all about it."""
    if not runs:
        return []
    key, whole = runs[0]["run_key"][:KEY_DIGITS], run_command(runs[0], sorted({run["seed"] for run in runs}))
    return [
        ("All of it, with the code that is installed:", whole),
        ("One run, bit for bit, and everything that is recorded of it:", f"bench replay {key}\nbench show {key}"),
    ]


def tasks(site_fields: Sequence[SiteField], registry: Registry) -> list[Subject]:
    """Return the tasks of these fields, with the descriptions of their plugins."""
    return [_subject(name, registry, ("tasks",), task_record) for name in sorted({field.task for field in site_fields})]


def methods(site_fields: Sequence[SiteField], registry: Registry) -> list[Subject]:
    """Return the methods of these fields, with the descriptions of their plugins."""

    def record(offer: Offer) -> dict[str, Any]:
        if offer.kind == "methods":
            return offers.method(offer, registry)
        about = {**offers.head(offer), "description": offers.text(offer)}
        return {**about, "hyperparameters": offers.hyperparameters(offer)}

    names = sorted({row.method for field in site_fields for row in field.rows})
    return [_subject(name, registry, ("samplers", "methods"), record) for name in names]


def _subject(name: str, registry: Registry, kinds: Sequence[str], record: Callable[[Offer], dict[str, Any]]) -> Subject:
    offer = next((o for kind in kinds for o in registry.offers(kind) if o.name == name), None)
    if offer is None:
        return Subject(name, "not installed here", "other tasks")
    family = _family(offer)
    try:
        with plugin_code(f"{offer.kind[:-1]} {name} ({offer.distribution})"):
            about = record(offer)
    except BenchError as error:
        return Subject(name, offer.info.summary, family, [str(error)])
    kept = {key: value for key, value in about.items() if key not in {"kind", "name", "summary"}}
    return Subject(name, offer.info.summary, family, blocks_of(kept), _papers(offer))


def _papers(offer: Offer) -> list[tuple[str, str]]:
    """Return the papers of a built-in task or method, of a method also those of its sampler: "Ma, Chen (2015)."."""
    if offer.distribution != HARNESS:
        return []
    subjects = [f"{offer.kind[:-1]} {offer.name}"]
    if isinstance(offer.info, Method):
        subjects += [f"sampler {offer.info.sampler}", f"schedule {offer.info.schedule}"]
    known = references()
    papers = [parsed(entry) for entry in dict.fromkeys(entry for name in subjects for entry in known.get(name, ()))]
    return [(f"{_authors(paper.authors)} ({paper.year}). {paper.title}. {paper.venue}", paper.url) for paper in papers]


def _authors(names: Sequence[str]) -> str:
    shown = [name.partition(",")[0] for name in names]
    return ", ".join(shown) if len(shown) <= MOST_AUTHORS else f"{shown[0]} et al."


def _family(offer: Offer) -> str:
    """Return the folder of a built-in task, or the distribution of another one."""
    target = offer.info.target if isinstance(offer.info, Info) else ""
    parts = target.partition(":")[0].split(".")
    return parts[1].capitalize() if offer.distribution == HARNESS and len(parts) > 2 else offer.distribution
