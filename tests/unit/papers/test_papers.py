"""The papers' data: well-formed, resolvable by the classes that they name, and equal to what is printed."""

import importlib
import tomllib

import numpy as np
import pytest

from plugins.methods import bench_methods
from plugins.papers import bench_papers
from plugins.samplers import bench_samplers
from plugins.schedules import bench_schedules
from tasks import bench_tasks

PAPERS = {path.stem: tomllib.loads(path.read_text(encoding="utf-8")) for path in bench_papers()}
SETTINGS = [(name, table) for name, paper in PAPERS.items() for table in paper.get("settings", [])]
REPORTED = [(name, cell) for name, paper in PAPERS.items() for cell in paper.get("reported", [])]
METHODS = {method.name: (method.sampler, method.schedule) for method in bench_methods()}
METHODS |= {info.name: (info.name, "") for info in bench_samplers()}

SETTING_KEYS = {"method", "task", "protocol", "schedule", "summary", "values"}
CELL_KEYS = {
    "table", "row", "column", "method", "task", "protocol", "chains", "metric", "value", "error", "error_kind", "n",
    "printed_as", "correction", "evidence", "notes",
}  # fmt: skip
PROVENANCE = {"paper", "code", "inferred", "ours"}


def found(infos, name):
    module, _, attribute = {info.name: info.target for info in infos}[name].partition(":")
    return getattr(importlib.import_module(module), attribute)


def name_of(case):
    return "-".join(str(case[1].get(key)) for key in ("method", "task", "protocol"))


@pytest.mark.parametrize("name", PAPERS)
def test_a_paper_says_what_it_is(name):
    paper = PAPERS[name]
    assert set(paper) <= {"paper", "settings", "reported", "claim"}
    assert paper["paper"]["id"] == name
    assert paper["paper"]["title"]
    assert paper["paper"]["citation"]


@pytest.mark.parametrize("case", SETTINGS, ids=name_of)
def test_settings_make_the_sampler_schedule_and_task_that_they_are_of(case):
    _, table = case
    assert set(table) <= SETTING_KEYS
    for key, entry in table["values"].items():
        assert set(entry) == {"value", "provenance", "source"}, key
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
    assert set(parts["run"]) <= {"burn_in", "thin"}
    found(bench_samplers(), sampler)(**parts["sampler"])
    found(bench_schedules(), schedule or table["schedule"])(**parts["schedule"])
    task(**parts["task"])


@pytest.mark.parametrize("case", REPORTED, ids=lambda case: f"{case[1]['table']}-{case[1]['row']}-{case[1]['column']}")
def test_a_reported_cell_belongs_to_a_metric_of_its_task(case):
    _, cell = case
    assert set(cell) <= CELL_KEYS
    assert cell["method"] in METHODS
    task = found(bench_tasks(), cell["task"])
    assert cell["protocol"] in {protocol.name for protocol in task.protocols}
    assert cell["metric"] in {metric.name for metric in task.metrics}
    assert cell["error_kind"] in {"sd", "se", "unknown"}
    assert isinstance(cell["value"], float)
    assert isinstance(cell["chains"], int)
    corrected = [key in cell for key in ("printed_as", "correction", "evidence")]
    assert all(corrected) or not any(corrected)


def test_nothing_is_there_twice():
    settings = [(t["method"], t["task"], t["protocol"]) for _, t in SETTINGS]
    assert len(settings) == len(set(settings))
    keys = ("method", "task", "protocol", "chains", "metric")
    cells = [tuple(cell[key] for key in keys) for _, cell in REPORTED]
    assert len(cells) == len(set(cells))


def test_table_4_has_its_two_swapped_labels_corrected():
    cells = {cell["row"]: cell for _, cell in REPORTED if cell["table"] == "Table 4"}
    assert {row: (c["value"], c["error"], c["method"], c["chains"]) for row, c in cells.items()} == {
        "SGLD": (1.8, 0.13, "sgld", 1),
        "cSGLD": (6.7, 0.52, "sgld", 4),
        "Parallel SGLD": (18.0, 0.47, "csgld", 1),
        "Parallel cSGLD": (24.4, 0.22, "csgld", 4),
    }
    assert {row for row, cell in cells.items() if "printed_as" in cell} == {"cSGLD", "Parallel SGLD"}
    assert all(cell["error_kind"] == "se" and cell["n"] == 10 for cell in cells.values())


def test_table_5_is_as_printed():
    cells = {(c["row"], c["column"]): c["value"] for _, c in REPORTED if c["table"] == "Table 5"}
    printed = {
        "SGLD": (1676, 492, 2199), "cSGLD": (2138, 978, 2541), "SGHMC": (1317, 2007, 5000),
        "cSGHMC": (4707, 2436, 5000),
    }  # fmt: skip
    columns = ("Australian", "German", "Heart")
    assert cells == {(row, c): v for row, values in printed.items() for c, v in zip(columns, values, strict=True)}
    assert not any("error" in c for _, c in REPORTED if c["table"] == "Table 5")


def test_what_no_source_gives_is_called_ours():
    own = {
        (table["method"], key)
        for _, table in SETTINGS
        for key, entry in table["values"].items()
        if table["task"].startswith("blr-") and entry["provenance"] != "ours"
    }
    assert {key for _, key in own} == {"schedule.hold"}


def test_the_authors_code_drops_the_first_50_steps_of_each_cycle():
    (table,) = [t for _, t in SETTINGS if (t["method"], t["protocol"]) == ("csgld", "csgmcmc-code")]
    values = {key.removeprefix("schedule."): e["value"] for key, e in table["values"].items() if "schedule." in key}
    trajectory = found(bench_schedules(), "cyclical")(**values).trajectory(50_000, 1)
    t = np.arange(50_000)
    expected = (3 * t) % 5000 + 3 > 150  # mod(t - 1, L/M) + 1 > 50 with L/M = 5000/3, in whole numbers
    assert expected.sum() == 48_520
    assert np.array_equal(trajectory.keep, expected)
    assert (trajectory.temperature == 1).all()
