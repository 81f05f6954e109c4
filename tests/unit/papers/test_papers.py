"""The papers' data: well-formed, resolvable by the classes that they name, and equal to what is printed."""

import importlib
import tomllib

import numpy as np
import pytest

from harness.contracts.registry import registry
from harness.results import papers
from harness.results.papers import read
from harness.results.store.published import Published
from harness.runs.settings import find_pair, resolve
from harness.system.errors import PluginError
from plugins.methods import bench_methods
from plugins.papers import bench_papers
from plugins.samplers import bench_samplers
from plugins.schedules import bench_schedules
from reports import bench_reports
from reports.published import FOLDER
from reports.reproduction.reported import EXECUTION
from tasks import bench_tasks

PAPERS = {path.stem: tomllib.loads(path.read_text(encoding="utf-8")) for path in bench_papers()}
SETTINGS = [(name, table) for name, paper in PAPERS.items() for table in paper.get("settings", [])]
ROWS = read(bench_papers())[0]
CELLS = ROWS["reported_value"]
METHODS = {method.name: (method.sampler, method.schedule) for method in bench_methods()}
METHODS |= {info.name: (info.name, "") for info in bench_samplers()}

SETTING_KEYS = {"method", "task", "protocol", "schedule", "summary", "values", "sweep"}
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
    assert set(parts["run"]) <= {"burn_in", "thin"}
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


def test_a_table_sweeps_every_combination_or_one_setting_after_the_other():
    values = {"a": {"value": 1, "swept": [1, 2]}, "b": {"value": 3}, "c": {"value": 4, "swept": [4, 5]}}
    assert papers.sweeps({"values": values}) == [{"a": [1, 2], "c": [4, 5]}]
    assert papers.sweeps({"values": values, "sweep": "each alone"}) == [{"a": [1, 2]}, {"c": [4, 5]}]
    assert papers.sweeps({"values": {}}) == []


@pytest.mark.parametrize("values", ["[2.0]", "1", '[1, ["a"]]', "{}", "[]", "[true]"])
def test_a_sweep_is_a_list_that_has_the_value(tmp_path, values):
    path = tmp_path / "bad.toml"
    path.write_text(
        '[paper]\nid = "bad"\n[[settings]]\nmethod = "sgld"\ntask = "mixture25"\nprotocol = "csgmcmc"\n'
        f'[settings.values]\n"schedule.a" = {{ value = 1, provenance = "ours", swept = {values} }}\n'
    )
    with pytest.raises(PluginError, match=r'"schedule\.a": swept'):
        papers.settings(path)


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


def test_every_choice_is_whole():
    for choice in ROWS["choice"]:
        assert choice["provenance"] in PROVENANCE
        assert choice["source"]


@pytest.mark.parametrize(
    ("provenance", "source", "found"),
    [("default", "ours: not stated", "ours"), ("default", "not stated; ours", "ours"), ("default", "yours", "default"),
     ("default", "Kim et al. 2022", "default"), ("paper", "ours", "paper"), ("ours", "", "ours")],
)  # fmt: skip
def test_a_default_that_is_called_ours_is_ours(provenance, source, found):
    assert papers.provenance({"provenance": provenance, "source": source}) == found


def test_momentum_that_is_read_as_friction_has_one_provenance():
    found = {
        (entry["value"], entry["provenance"])
        for name, table in SETTINGS
        for key, entry in table["values"].items()
        if key == "sampler.friction" and PAPERS[name]["paper"]["id"] == "adaptive-drift"
    }
    assert found == {(0.1, "inferred")}


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


def test_what_is_said_of_the_ravine_is_what_the_runs_found():
    published = Published(FOLDER, bench_papers())
    rows = published.rows("select method, seed, metric, value from run_metric where task = 'ravine'")
    ratio = {(r["method"], r["seed"]): r["value"] for r in rows if r["metric"] == "variance_ratio"}
    place = {(r["method"], r["seed"]): r["value"] for r in rows if r["metric"] == "theta1"}
    assert min(v for (method, _), v in ratio.items() if method != "sghmc") > 1e6
    (stayed,) = [key for key, v in ratio.items() if v < 1e4]
    assert (stayed[0], round(place[stayed], 2)) == ("sghmc", 20.00)


def test_nothing_is_there_twice():
    settings = [(t["method"], t["task"], t["protocol"]) for _, t in SETTINGS]
    assert len(settings) == len(set(settings))


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


def test_table_5_is_as_printed():
    cells = {(c["row_label"], c["column_label"]): c["value"] for c in table_of("csgmcmc", "Table 5")}
    printed = {
        "SGLD": (1676, 492, 2199), "cSGLD": (2138, 978, 2541), "SGHMC": (1317, 2007, 5000),
        "cSGHMC": (4707, 2436, 5000),
    }  # fmt: skip
    columns = ("Australian", "German", "Heart")
    assert cells == {(row, c): v for row, values in printed.items() for c, v in zip(columns, values, strict=True)}
    assert not any(c["error"] for c in table_of("csgmcmc", "Table 5"))


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
