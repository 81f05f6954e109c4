"""Papers and suites whose TOML is not what it should be: an error that names the file, and the others still count."""

import contextlib
import json
import tempfile
from pathlib import Path

import fabricated
import pytest
from fuzz.budget import cases
from fuzz.running import ends_well
from fuzz.tables import document, spoilt, toml, values
from hypothesis import given
from hypothesis import strategies as st

from harness.contracts.registry import Plugin, Registry
from harness.results.ledger.ledger import Ledger
from harness.runs.plan import expand
from harness.runs.settings import find_pair, resolve
from harness.system.errors import BenchError, PluginError, UsageError
from plugins.nights import suite
from plugins.papers import files
from plugins.papers.claims import load_claims
from plugins.papers.reported import load_cells

PAPER = {
    "paper": {"id": "bad-paper", "title": "A title", "citation": "Somebody, 2020", "versions": "one"},
    "settings": [
        {
            "method": "sgld", "task": "mixture5", "protocol": "adaptive-drift", "schedule": "polynomial",
            "summary": "s",
            "values": {
                "schedule.a": {"value": 0.05, "provenance": "paper", "source": "section 5"},
                "schedule.gamma": {"value": 0.55, "provenance": "ours", "source": ""},
            },
        }
    ],
    "reported": [
        {
            "table": 4, "row": "SGLD", "column": "modes", "method": "sgld", "task": "mixture5", "chains": 1,
            "metric": "modes_covered", "value": 1.8, "error": 0.1, "error_kind": "sd", "n": 10,
        },
        {"table": 5, "row": "SGLD", "cells": [{"column": "a", "value": 1.0}, {"column": "b", "value": 2.0}]},
    ],
    "claim": [
        {"table": 4, "statement": "x", "better": "csgld", "worse": "sgld", "task": "mixture5", "metric": "rhat"},
        {"table": 5, "kind": "share", "better": "sgld", "claims": [{"statement": "y", "share": 4, "trials": 5}]},
    ],
}  # fmt: skip
SUITE = {
    "summary": "what for",
    "reports": ["coverage"],
    "run": [
        {
            "samplers": ["sgld"], "tasks": ["mixture5"], "seeds": "0-2", "chains": 2, "budget": "smoke",
            "settings": {"sampler": {"gradient_variance": 0.0}}, "sweep": {"schedule.step_size": [0.01, 0.1]},
        }
    ],
}  # fmt: skip
CASES = cases(40)


@pytest.fixture(scope="module")
def known():
    return Registry()


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("papers") / "good.toml"
    path.write_text(fabricated.PAPER)
    return path


@contextlib.contextmanager
def written(content):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bad.toml"
        path.write_bytes(content)
        yield path


def test_the_documents_to_spoil_are_whole(known, good):
    with written(document(PAPER).encode()) as path:
        (stated,) = files.settings(path)
        assert stated.values["schedule.a"].value == 0.05
        assert files.read([path, good])[1] == []
    with written(document(SUITE).encode()) as path:
        assert sum(len(specs) for _, specs in expand(known, suite.read(path).entries[0])) == 6


@CASES
@given(spoilt(PAPER))
def test_a_paper_is_read_or_named_and_the_others_count(known, good, content):
    with written(content) as path:
        read, notes = files.read([path, good])
        assert [cell["value"] for file in read for cell in file.cells if file.paper == "a-paper"] == [1.8]
        assert all(str(path) in note for note in notes)
        assert len(read) + len(notes) == 2
        load_cells(read)
        load_claims(read)
        try:
            tables = files.settings(path)
        except PluginError as error:
            tables = []
            named = str(error)
        else:
            named = str(path)
        assert str(path) in named
        known.plugins.append(Plugin("bad", "bad-distribution", "1", "x", papers=[path]))
        try:
            with contextlib.suppress(UsageError if tables else ()):
                resolve(
                    known, find_pair(known, "sgld", "mixture5"), {"schedule.step_size": 0.01, "schedule": "constant"}
                )
        finally:
            known.plugins.pop()


@cases(1)
@given(st.lists(spoilt(PAPER), min_size=25, max_size=25, unique=True))
def test_reports_name_the_papers_that_they_leave_out(contents):
    with tempfile.TemporaryDirectory() as folder:
        for i, content in enumerate(contents):
            Path(folder, f"bad-{i}.toml").write_bytes(content)
        Path(folder, "good.toml").write_text(fabricated.PAPER)
        plugin = Path(folder, "several.py")
        plugin.write_text(
            "from pathlib import Path\nfrom harness import hook\n\n\n@hook\ndef bench_papers():\n"
            "    return sorted(Path(__file__).parent.glob('*.toml'))\n"
        )
        results = Path(folder) / "results"
        fabricated.concluded(results)
        notes = files.read(Path(folder).glob("*.toml"))[1]
        for report in ("leaderboard", "reproduction"):
            words = ["--plugin", str(plugin), "report", report, "--json"]
            _, out, err = ends_well(results, *words, codes={0})
        assert "a-paper" in {record["paper"] for record in json.loads(out)}
        assert all(f"note: {note}" in err for note in notes)


def test_a_paper_that_does_not_read_stops_the_runs_of_its_own_plugin_alone(tmp_path, known):
    bad = tmp_path / "bad.toml"
    bad.write_text('[paper]\nid = "x"\n[[settings]]\nmethod = "sgld"\ntask = 3\nprotocol = "p"\n')
    home = known.find("samplers", "sgld").distribution
    message = r"bad.toml: \[\[settings\]\] 1: task = 3 is not a name, or a list of names"
    for distribution in ("elsewhere", home):
        known.plugins.append(Plugin("bad", distribution, "1", "x", papers=[bad]))
        try:
            with pytest.raises(PluginError, match=message) if distribution == home else contextlib.nullcontext():
                find_pair(known, "sgld", "mixture5")
        finally:
            known.plugins.pop()


@CASES
@given(spoilt(SUITE))
def test_a_suite_is_read_or_named(known, content):
    with written(content) as path:
        try:
            parsed = suite.read(path)
        except UsageError as error:
            named = str(error)
        else:
            named = str(parsed.path)
            for entry in parsed.entries:
                if len(entry.seeds or ()) < 20 and len(entry.sweep) < 3:
                    with contextlib.suppress(BenchError):
                        expand(known, entry)
        assert str(path) in named


@cases(6)
@given(st.sampled_from(("ledger.json", "results.settled.json")), values.map(toml), st.booleans())
def test_files_of_the_folder_itself_are_read_or_refused(name, content, wrapped):
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results"
        Ledger(results).prepare()
        fabricated.concluded(results)
        text = json.dumps({"layout": content, "database": content, "parts": content}) if wrapped else content
        (results / name).write_text(text.encode(errors="replace").decode())
        code, out, err = ends_well(results, "sql", "select count(*) as n from run", "--json", codes={0, 4})
        assert (json.loads(out) == [{"n": 1}]) if code == 0 else ("newer version" in err)
