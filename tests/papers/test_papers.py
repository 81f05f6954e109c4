"""The papers' data: well-formed, resolvable by the classes that they name, and equal to what is printed."""

import importlib
import tomllib

import pytest

from harness.contracts.registry import registry
from harness.results import papers
from harness.results.papers import read
from harness.results.store.published import Published
from harness.runs.settings import find_pair, resolve
from plugins.methods import bench_methods
from plugins.papers import bench_papers
from plugins.samplers import bench_samplers
from plugins.schedules import bench_schedules
from reports import bench_reports
from reports.published import FOLDER
from reports.reproduction.reported import EXECUTION
from tasks import bench_tasks

PAPERS = {path.stem: tomllib.loads(path.read_text(encoding="utf-8")) for path in bench_papers()}
SETTINGS = [(path.stem, table) for path in bench_papers() for table in papers.settings(path)]
ROWS = read(bench_papers())[0]
CELLS = ROWS["reported_value"]
METHODS = {method.name: (method.sampler, method.schedule) for method in bench_methods()}
METHODS |= {info.name: (info.name, "") for info in bench_samplers()}

SETTING_KEYS = {"paper", "method", "task", "protocol", "schedule", "summary", "values", "sweep"}
TABLE_KEYS = {
    "reported": {
        "table", "row", "column", "method", "task", "protocol", "chains", "metric", "direction", "value", "error",
        "error_kind", "n", "printed_as", "correction", "evidence", "uncertain", "obstacle", "needs", "cause",
        "cause_by", "notes",
    },
    "claim": {
        "table", "statement", "kind", "better", "worse", "task", "protocol", "chains", "worse_protocol", "worse_chains",
        "metric", "direction", "share", "trials", "margin", "obstacle", "needs", "cause", "cause_by", "notes",
        "analysis", "finding", "evidence", "beside",
    },
}  # fmt: skip
PROVENANCE = {"paper", "code", "inferred", "ours"}


def found(infos, name):
    module, _, attribute = {info.name: info.target for info in infos}[name].partition(":")
    return getattr(importlib.import_module(module), attribute)


def table_of(paper, label):
    return [cell for cell in CELLS if (cell["paper"], cell["table_label"]) == (paper, label)]


def name_of(case):
    return "-".join(str(case[1].get(key)) for key in ("method", "task", "protocol"))


STATED = {name: {"stated": "[1, 2, 3]", "provenance": "paper", "sweep": None} for name in ("h", "cycles")}
EACH_ALONE = {name: {**choice, "sweep": papers.ALONE} for name, choice in STATED.items()}


@pytest.mark.parametrize(
    ("choices", "given", "kinds"),
    [
        (STATED, {"h": 2}, {"h": "swept"}),
        (STATED, {"h": 2, "cycles": 3}, {"h": "swept", "cycles": "swept"}),
        (STATED, {"h": 2, "cycles": 1}, {"h": "swept", "cycles": "paper"}),
        (STATED, {"h": 2, "cycles": 4}, {"h": "user", "cycles": "user"}),
        (STATED, {"h": 2, "batch": 7}, {"h": "user", "batch": "user"}),
        (EACH_ALONE, {"h": 2}, {"h": "swept"}),
        (EACH_ALONE, {"h": 2, "cycles": 3}, {"h": "user", "cycles": "user"}),
        (EACH_ALONE, {"h": 2, "cycles": 1}, {"h": "swept", "cycles": "paper"}),
    ],
)
def test_a_users_values_count_as_swept_if_they_are_one_point_of_the_sweep(choices, given, kinds):
    origins = {name: {"value": value, "provenance": "user"} for name, value in given.items()}
    assert papers.settle(origins, choices) == kinds


@pytest.mark.parametrize("name", PAPERS)
def test_a_paper_says_what_it_is(name):
    paper = PAPERS[name]
    assert set(paper) <= {"paper", "settings", "choices", "reported", "claim"}
    if paper["paper"].keys() == {"id"}:  # a second file
        assert paper["paper"]["id"] in PAPERS
        assert set(paper) == {"paper", "settings"}
        return
    assert paper["paper"]["id"] == name
    assert paper["paper"]["title"]
    assert paper["paper"]["citation"]


@pytest.mark.parametrize(("kind", "members"), [("reported", "cells"), ("claim", "claims")])
def test_cells_and_claims_have_no_key_that_nothing_reads(kind, members):
    for paper in PAPERS.values():
        for table in paper.get(kind, []):
            assert set(table) <= TABLE_KEYS[kind] | {members}
            for entry in table.get(members, []):
                assert set(entry) <= TABLE_KEYS[kind]
                assert not set(entry) & set(table) - {"notes", "direction"}, "said twice"


@pytest.mark.parametrize("case", SETTINGS, ids=name_of)
def test_settings_make_the_sampler_schedule_and_task_that_they_are_of(case):
    _, table = case
    assert set(table) <= SETTING_KEYS
    for key, entry in table["values"].items():
        assert set(entry) - {"swept"} == {"value", "provenance", "source"}, key
        assert entry["provenance"] in PROVENANCE, key
        assert entry["source"], key
    sampler, schedule = METHODS[table["method"]]
    assert bool(schedule) != ("schedule" in table), "a method has its schedule, a plain sampler needs one"
    task = found(bench_tasks(), table["task"])
    assert table["protocol"] in {protocol.name for protocol in task.protocols}
    parts = {"sampler": {}, "schedule": {}, "task": {}, "run": {}}
    for key, entry in table["values"].items():
        part, _, field = key.partition(".")
        parts[part][field] = entry["value"]
    assert set(parts["run"]) <= {"burn_in", "thin", "warm_start", "warm_passes", "warm_step_size"}
    found(bench_samplers(), sampler)(**parts["sampler"])
    task(**parts["task"])
    for sweep in [{}, *papers.sweeps(table)]:
        for key, values in sweep.items():
            known = table["values"][key]["provenance"] != "ours"
            assert not known or "sweep" in table, "a value that is known is varied alone, if at all"
            part, _, field = key.partition(".")
            for value in values:
                swept = {**parts, part: {**parts[part], field: value}}
                found(bench_schedules(), schedule or table["schedule"])(**swept["schedule"])
                task(**swept["task"])
        if not sweep:
            found(bench_schedules(), schedule or table["schedule"])(**parts["schedule"])


SIDES = sorted(
    {
        (row["paper"], method, row["task"], row["protocol"])
        for row in [*ROWS["reported_value"], *ROWS["claim"]]
        for method in (row.get("method"), row.get("better"), row.get("worse"))
        if method and row["task"] and row["protocol"]
    }
)
ASPECTS = {"start", "number format"}
"""What every run of a task rests on, and no setting carries."""


@pytest.mark.parametrize("side", SIDES, ids="-".join)
def test_a_choice_of_ours_that_a_run_rests_on_is_declared(side):
    """By `papers.provenance`, the rule that the ledger goes by where there are runs."""
    paper, method, task, protocol = side
    declared = [c for c in ROWS["choice"] if (c["paper"], c["task"], c["protocol"]) == (paper, task, protocol)]
    named = {c["name"] for c in declared if c["method"] is None}
    assert named >= ASPECTS - ({"start"} if "task.spread" in named else set())
    own = {c["name"] for c in declared if c["method"] in {None, method} and c["provenance"] == "ours"}
    registered = registry()
    resolved = resolve(registered, find_pair(registered, method, f"{task}@{protocol}"), {}, "paper")
    origins = {name: {"provenance": o.provenance, "source": o.source} for name, o in resolved.origins.items()}
    found = {name for name, origin in origins.items() if papers.provenance(origin) in {"ours", "untuned"}}
    assert found - EXECUTION <= own


def causes():
    """Each cause with what is said to be behind it."""
    for paper in PAPERS.values():
        for kind, members in (("reported", "cells"), ("claim", "claims")):
            for table in paper.get(kind, []):
                for entry in (table, *table.get(members, [])):
                    if "cause" in entry:
                        yield entry["cause"], entry.get("cause_by", [])


def test_a_cause_has_published_runs_behind_it_or_is_called_a_conjecture():
    published = Published(FOLDER, bench_papers())
    counted = published.rows(
        "select task, method, metric, count(value) as values from run_metric where budget = 'paper' group by all"
    )
    values = {(row["task"], row["method"], row["metric"]): row["values"] for row in counted}
    reports = {info.name for info in bench_reports()}
    found = list(causes())
    assert len(found) >= 5
    for cause, behind in found:
        assert behind or "conjecture" in cause, cause
        for evidence in behind:
            if "report" in evidence:
                assert evidence["report"] in reports
                continue
            assert set(evidence) == {"task", "methods", "metric"}
            for method in evidence["methods"]:
                assert values.get((evidence["task"], method, evidence["metric"]), 0) >= 3, (cause, method)


def test_table_4_has_its_two_swapped_labels_corrected():
    cells = {cell["row_label"]: cell for cell in table_of("csgmcmc", "Table 4")}
    assert {row: (c["value"], c["error"], c["method"], c["chains"]) for row, c in cells.items()} == {
        "SGLD": (1.8, 0.13, "sgld", 1),
        "cSGLD": (6.7, 0.52, "sgld", 4),
        "Parallel SGLD": (18.0, 0.47, "csgld", 1),
        "Parallel cSGLD": (24.4, 0.22, "csgld", 4),
    }
    assert {row for row, cell in cells.items() if cell["printed_as"]} == {"cSGLD", "Parallel SGLD"}
    assert all(cell["error_kind"] == "se" and cell["n"] == 10 for cell in cells.values())


def test_all_methods_meet_under_one_protocol_unless_the_first_protocol_is_a_papers():
    methods = {offer.name for kind in ("samplers", "methods") for offer in registry().offers(kind)}
    for task, protocol in (("gaussian", "noisy-gradients"), ("airfoil", "smile")):
        assert {find_pair(registry(), method, task).protocol.name for method in methods} == {protocol}
    assert find_pair(registry(), "sgld", "cifar10").protocol.name == "csgmcmc"
    assert find_pair(registry(), "msgld", "cifar10").protocol.name == "adaptive-drift"


HEAD = '[paper]\nid = "x"\n'
PLACES = 'method = ["sgld", "sghmc"]\ntask = "mixture5"\nprotocol = ["p", "q"]\n'


def test_a_table_is_of_every_combination_of_its_names(tmp_path):
    path = tmp_path / "x.toml"
    entry, choice = (f'{{ {key} = "a", provenance = "ours", source = "s" }}' for key in ("value", 'name = "b", value'))
    choices = f'[[choices]]\ntask = ["mixture5", "ravine"]\nprotocol = "p"\nvalues = [{choice}]\n'
    path.write_text(f'{HEAD}[[settings]]\n{PLACES}values."sampler.a" = {entry}\n{choices}')
    wanted = [("sgld", "p"), ("sgld", "q"), ("sghmc", "p"), ("sghmc", "q")]
    assert [(table["method"], table["protocol"]) for table in papers.settings(path)] == wanted
    rows, notes = papers.read([path])
    assert notes == []
    assert [(row["method"], row["protocol"]) for row in rows["choice"][:4]] == wanted
    assert [(row["method"], row["task"], row["protocol"]) for row in rows["choice"][4:]] == [
        (None, "mixture5", "p"), (None, "ravine", "p"),
    ]  # fmt: skip


@pytest.mark.parametrize("names", ["3", "[]", '["sgld", 3]', '[["sgld"]]'])
@pytest.mark.parametrize("table", ["settings", "choices"])
def test_what_is_no_name_and_no_list_of_names_is_refused(table, names, tmp_path):
    path = tmp_path / "x.toml"
    path.write_text(f'{HEAD}[[{table}]]\nmethod = {names}\ntask = "mixture5"\nprotocol = "p"\n')
    _, notes = papers.read([path])
    assert "method = " in notes[0]
    assert "is not a name, or a list of names" in notes[0]
