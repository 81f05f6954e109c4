"""The references: each sampler, schedule, task and paper with a source has an entry, and `bench cite` prints it."""

from __future__ import annotations

import json
import re
import tomllib

import fabricated
import pytest

from harness import Bench, UsageError, registry
from harness.cli.app import run
from harness.reports import load_plugin
from plugins.papers import bench_papers
from plugins.papers.references import ENTRY, FILE, parsed, references

KINDS = ("samplers", "schedules", "tasks")
OFFERS = {f"{kind[:-1]} {offer.name}": offer for kind in KINDS for offer in registry().offers(kind)}
PROTOCOLS = {f"protocol {protocol.name}" for name in registry().names("tasks")
             for protocol in load_plugin("tasks", name)().protocols}  # fmt: skip
PAPERS = {f"paper {tomllib.loads(path.read_text(encoding='utf-8'))['paper']['id']}" for path in bench_papers()}


def with_a_source():
    for subject, offer in OFFERS.items():
        kind, name = subject.split()
        stated = re.search(r"^ *Sources?: ", load_plugin(f"{kind}s", name).__doc__ or "", re.MULTILINE)
        if stated or re.search(r"\(.*\d{4}\)", offer.info.summary):
            yield subject


def test_every_plugin_with_a_source_and_every_paper_has_a_reference():
    assert {*with_a_source(), *PAPERS} <= references().keys()


def test_every_reference_is_of_something_that_exists_and_is_complete():
    methods = {f"method {name}" for name in registry().names("methods")}
    assert references().keys() <= OFFERS.keys() | methods | PROTOCOLS | PAPERS
    text = FILE.read_text(encoding="utf-8")
    records = [parsed(entry) for _, entry in ENTRY.findall(text)]
    assert len(records) == text.count("@") == len({record.key for record in records})
    assert all(record.authors and record.title and 1900 < record.year < 2100 for record in records)


@pytest.fixture
def bench(tmp_path):
    fabricated.concluded(tmp_path, 0)
    fabricated.concluded(tmp_path, 1, method="csgld", task="mixture5")
    return Bench(tmp_path)


def keys(result):
    return {record["key"]: record["cited_for"] for record in result.records}


def test_results_are_cited_by_methods_tasks_and_protocols(bench):
    both = {"welling2011": ["csgld", "sgld"], "kim2022": ["mixture5@csgmcmc"]}
    both["zhang2020cyclical"] = ["csgld", "cyclical", "mixture25@csgmcmc", "mixture5@csgmcmc"]
    assert keys(bench.cite()) == keys(bench.load().cite()) == both
    assert keys(bench.load(method="sgld").cite()).keys() == {"welling2011", "zhang2020cyclical"}


def test_names_are_cited_without_results(tmp_path):
    bench = Bench(tmp_path)
    cited = bench.cite("deep-ensemble, gaussian@smile-laplace, mixture2d")
    assert keys(cited).keys() == {"kingma2015", "lakshminarayanan2017", "sommer2026"}
    assert cited.notes == ["no reference is known for mixture2d"]
    assert keys(bench.cite(["csgmcmc"])).keys() == {"zhang2020cyclical"}
    with pytest.raises(UsageError, match="no reference is known for 'sgdl'; did you mean sg"):
        bench.cite("sgdl")
    with pytest.raises(UsageError, match="there are no results in"):
        bench.cite()


def test_the_command_prints_bibtex_and_records(capsys):
    assert run(["cite", "msgld"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("@article{kim2022,\n  author = {Kim, Sehwan and")
    assert run(["cite", "msgld", "--json"]) == 0
    (record,) = json.loads(capsys.readouterr().out)
    assert record["bibtex"] == text.strip()
    assert record["url"] == "https://doi.org/10.1080/00949655.2021.1958812"
