"""The papers' data: well-formed, resolvable by the classes that they name, and equal to what is printed."""

import importlib
import re
import subprocess
import sys
import tomllib
from dataclasses import replace

import pytest
from scored import write_run

from harness import Bench
from harness.contracts.registry import registry
from harness.runs.settings import find_pair, resolve
from harness.runs.stated import settle
from harness.tasks import StatedSettings, StatedValue
from plugins.methods import bench_methods
from plugins.papers import bench_papers, files
from plugins.papers.page import FOLDER
from plugins.samplers import bench_samplers
from plugins.schedules import bench_schedules
from plugins.sharing.published import Published
from reports import bench_reports
from tasks import bench_tasks

PAPERS = {path.stem: tomllib.loads(path.read_text(encoding="utf-8")) for path in bench_papers()}
SETTINGS = [stated for path in bench_papers() for stated in files.settings(path)]
FILES = files.read(bench_papers())[0]
CELLS = [{"paper": file.paper, **cell} for file in FILES for cell in file.cells]
METHODS = {method.name: (method.sampler, method.schedule) for method in bench_methods()}
METHODS |= {info.name: (info.name, "") for info in bench_samplers()}

SETTING_KEYS = {"method", "task", "protocol", "schedule", "summary", "values", "sweep"}
TABLE_KEYS = {
    "reported": {
        "table", "row", "column", "method", "task", "protocol", "chains", "metric", "direction", "value", "error",
        "error_kind", "n", "printed_as", "correction", "evidence", "uncertain", "outside", "obstacle", "needs",
        "core_hours", "cause", "cause_by", "notes",
    },
    "claim": {
        "table", "statement", "kind", "better", "worse", "task", "protocol", "chains", "worse_protocol", "worse_chains",
        "metric", "direction", "measure", "share", "trials", "margin", "least_ess", "obstacle", "needs", "core_hours",
        "cause", "cause_by", "notes", "analysis", "finding", "evidence", "beside", "differs",
    },
}  # fmt: skip


def class_of(infos, name):
    module, _, attribute = {info.name: info.target for info in infos}[name].partition(":")
    return getattr(importlib.import_module(module), attribute)


def table_of(paper, label):
    return [cell for cell in CELLS if (cell["paper"], cell["table"]) == (paper, label)]


def name_of(stated):
    return f"{stated.method}-{stated.task}-{stated.protocol}"


SWEPT = StatedValue(1, "paper", "", (1, 2, 3))
STATED = StatedSettings("m", "t", "p", "a-paper", {"h": SWEPT, "cycles": SWEPT})
EACH_ALONE = replace(STATED, each_alone=True)


@pytest.mark.parametrize(
    ("stated", "given", "kinds"),
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
def test_a_users_values_count_as_swept_if_they_are_one_point_of_the_sweep(stated, given, kinds):
    origins = {name: {"value": value, "provenance": "user"} for name, value in given.items()}
    assert settle(origins, stated) == kinds


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


def test_settings_have_no_key_that_nothing_reads_and_each_value_a_source():
    for paper in PAPERS.values():
        for table in paper.get("settings", []):
            assert set(table) <= SETTING_KEYS
            for key, entry in table["values"].items():
                assert set(entry) - {"swept"} == {"value", "provenance", "source"}, key
                assert entry["source"], key


@pytest.mark.parametrize("stated", SETTINGS, ids=name_of)
def test_settings_make_the_sampler_schedule_and_task_that_they_are_of(stated):
    sampler, schedule = METHODS[stated.method]
    assert bool(schedule) != ("schedule" in stated.values), "a method has its schedule, a plain sampler needs one"
    task = class_of(bench_tasks(), stated.task)
    assert stated.protocol in {protocol.name for protocol in task.protocols}
    parts = {"sampler": {}, "schedule": {}, "task": {}, "run": {}}
    values = {key: one.value for key, one in stated.values.items()}
    schedule = schedule or values.pop("schedule")
    for key, value in values.items():
        part, _, field = key.partition(".")
        parts[part][field] = value
    assert set(parts["run"]) <= {"batch_order", "burn_in", "thin", "warm_start", "warm_passes", "warm_step_size"}
    class_of(bench_samplers(), sampler)(**parts["sampler"])
    task(**parts["task"])
    class_of(bench_schedules(), schedule)(**parts["schedule"])
    for key, several in ((key, several) for sweep in files.sweeps(stated) for key, several in sweep.items()):
        known = stated.values[key].provenance != "ours"
        assert not known or stated.each_alone, "a value that is known is varied alone, if at all"
        part, _, field = key.partition(".")
        for value in several:
            swept = {**parts, part: {**parts[part], field: value}}
            class_of(bench_schedules(), schedule)(**swept["schedule"])
            task(**swept["task"])


SIDES = sorted(
    {
        (file.paper, method, row["task"], protocol)
        for file in FILES
        for row in [*file.cells, *file.claims]
        for name in ("method", "better", "worse")
        if (method := row.get(name))
        and row["task"]
        and (protocol := (name == "worse" and row.get("worse_protocol")) or row["protocol"])
    }
)
ASPECTS = {"start", "number format"}
"""What every run of a task rests on, and no setting carries."""


@pytest.mark.parametrize("side", SIDES, ids="-".join)
def test_a_choice_of_ours_that_a_run_rests_on_is_declared(side):
    """A class's default is, if its source says so; the ledger knows only what is declared."""
    paper, method, task, protocol = side
    of_paper = [file for file in FILES if file.paper == paper]
    declared = [c for file in of_paper for c in file.choices if (c.task, c.protocol) == (task, protocol)]
    named = {c.name for c in declared if c.method is None}
    assert named >= ASPECTS - ({"start"} if "task.spread" in named else set())
    declared_ours = {c.name for c in declared if c.method in {None, method} and c.provenance == "ours"}
    registered = registry()
    resolved = resolve(registered, find_pair(registered, method, f"{task}@{protocol}"), {}, "paper")
    ours = {
        name
        for name, origin in resolved.origins.items()
        if origin.provenance in {"ours", "untuned"}
        or (origin.provenance == "default" and re.search(r"\bours\b", origin.source))
    }
    assert ours - {"run.compile"}.union(*(file.execution for file in of_paper)) <= declared_ours


@pytest.mark.parametrize("side", [side for side in SIDES if side[3] == "csgmcmc-slides-hmc"], ids="-".join)
def test_the_slides_run_as_many_iterations_of_hmc_as_of_the_others(side, tmp_path):
    _, method, task, protocol = side
    planned = Bench(tmp_path).plan(method, f"{task}@{protocol}", budget="paper")
    others = Bench(tmp_path).plan("sgld", f"{task}@csgmcmc-slides", budget="paper")
    assert {*planned["steps"]} == {*others["steps"]} == {15_000}


def causes():
    """Each cause with what is said to be behind it."""
    for paper in PAPERS.values():
        for kind, members in (("reported", "cells"), ("claim", "claims")):
            for table in paper.get(kind, []):
                for entry in (table, *table.get(members, [])):
                    if "cause" in entry:
                        yield entry["cause"], entry.get("cause_by", [])


def test_a_cause_has_published_runs_behind_it_or_is_called_a_conjecture():
    published = Published(FOLDER)
    counted = published.rows(
        "select task, method, metric, count(value) as values from run_metric where budget = 'paper' group by all"
    )
    values = {(row["task"], row["method"], row["metric"]): row["values"] for row in counted}
    reports = {info.name for info in bench_reports()}
    stated = list(causes())
    assert len(stated) >= 5
    for cause, behind in stated:
        assert behind or "conjecture" in cause, cause
        for evidence in behind:
            if "report" in evidence:
                assert evidence["report"] in reports
                continue
            assert set(evidence) == {"task", "methods", "metric"}
            for method in evidence["methods"]:
                assert values.get((evidence["task"], method, evidence["metric"]), 0) >= 3, (cause, method)


def test_table_4_has_its_two_swapped_labels_corrected():
    cells = {cell["row"]: cell for cell in table_of("csgmcmc", "Table 4")}
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
    assert [(stated.method, stated.protocol) for stated in files.settings(path)] == wanted
    (file,), notes = files.read([path])
    assert notes == []
    assert [(choice.method, choice.protocol) for choice in file.choices[:4]] == wanted
    assert [(choice.method, choice.task, choice.protocol) for choice in file.choices[4:]] == [
        (None, "mixture5", "p"), (None, "ravine", "p"),
    ]  # fmt: skip


@pytest.mark.parametrize("names", ["3", "[]", '["sgld", 3]', '[["sgld"]]'])
@pytest.mark.parametrize("table", ["settings", "choices"])
def test_what_is_no_name_and_no_list_of_names_is_refused(table, names, tmp_path):
    path = tmp_path / "x.toml"
    path.write_text(f'{HEAD}[[{table}]]\nmethod = {names}\ntask = "mixture5"\nprotocol = "p"\n')
    _, notes = files.read([path])
    assert "method = " in notes[0]
    assert "is not a name, or a list of names" in notes[0]


def test_leaderboards_read_of_the_papers_their_settings_alone(tmp_path):
    write_run(tmp_path)
    code = (
        "import sys\nfrom harness.cli.app import run\n"
        f"assert run(['--results', {str(tmp_path)!r}, 'report', 'leaderboard', '--json']) == 0\n"
        "print(sorted(name for name in sys.modules if name.startswith('plugins.papers')), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "['plugins.papers', 'plugins.papers.files']"
