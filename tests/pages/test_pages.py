"""The pages of docs/samplers are those that `bench docs` writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness import Bench, UsageError
from harness.cli.app import run
from harness.contracts.registry import registry
from harness.reporting.rendering.markdown import prose
from plugins.inspection.shown.offers import sampler
from plugins.pages.verb import OWN, docs, method_records, picture, records, texts

DOCS = Path(__file__).resolve().parents[2] / "docs" / "samplers"


@pytest.fixture(scope="module")
def samplers():
    return records(registry())


@pytest.fixture(scope="module")
def record(samplers):
    return {record["name"]: record for record in samplers}.__getitem__


def test_the_pages_in_the_docs_are_generated(samplers):
    assert {path.name: path.read_text(encoding="utf-8") for path in DOCS.glob("*.md")} == texts(
        samplers, method_records(registry(), samplers)
    )


def test_every_curve_has_its_picture(samplers):
    assert {path.stem for path in DOCS.glob("*.svg")} == {r["name"] for r in samplers if not r["no_variance"]}


def test_pages_are_the_same_bytes_again(tmp_path, monkeypatch, record):
    monkeypatch.setattr("plugins.pages.verb.records", lambda *_: [record("msgld"), record("hmc")])
    docs(Bench(), tmp_path)
    (tmp_path / "gone.md").write_text("of a sampler that is gone")
    docs(Bench(), tmp_path)
    first = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert sorted(first) == [
        "README.md", "cmsgld.md", "hmc-persistent.md", "hmc.md", "msgld.md", "msgld.svg",
    ]  # fmt: skip
    docs(Bench(), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == first
    assert b"<svg" in picture(record("msgld"))


def test_a_folder_that_is_not_of_pages_is_left_as_it_is(tmp_path, monkeypatch, record):
    monkeypatch.setattr("plugins.pages.verb.records", lambda *_: [record("hmc")])
    (tmp_path / "notes.md").write_text("mine")
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(UsageError, match=r"was not written by .* choose another folder"):
        docs(Bench(), tmp_path)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"notes.md": "mine", "README.md": "mine"}
    (tmp_path / "README.md").unlink()
    docs(Bench(), tmp_path)
    assert (tmp_path / "notes.md").read_text() == "mine"


def test_where_no_sampler_is_found_the_pages_stay(tmp_path, capsys):
    """Say that the plugins are broken: their pages must not go."""
    (tmp_path / "README.md").write_text((DOCS / "README.md").read_text())
    (tmp_path / "sgld.md").write_text("a page")
    assert run(["docs", str(tmp_path), "--distribution", "not-installed"]) == UsageError.exit_code
    assert "offers no sampler" in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"README.md", "sgld.md"}


def test_no_sampler_breaks_its_page(samplers):
    assert samplers
    assert all(r["distribution"] == OWN for r in samplers)
    assert {r["name"]: r["note"] for r in samplers if "note" in r} == {}
    for r in samplers:
        assert not [row for row in r["laws"] if row["outcome"] == "failed"]
        json.dumps(r, allow_nan=False)


def test_page_and_terminal_have_one_source(capsys, record):
    assert run(["show", "sampler", "msgld", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [json.loads(json.dumps(record("msgld")))]
    assert run(["show", "sampler", "msgld", "--format", "markdown"]) == 0
    page = texts([record("msgld")], [])["msgld.md"]
    assert capsys.readouterr().out in page.replace("\n![stationary variance](msgld.svg)\n", "", 1)


def test_what_has_no_curve_says_why(record):
    assert record("sgld")["no_variance"] is None
    assert "no linear law" in record("hmc")["no_variance"]
    assert record("hmc")["stability_limit"] is None
    assert "not a multiple" in record("hmc")["no_conversions"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("the *past* and a * b * c", r"the *past* and a \* b \* c"),
        ("`theta_1` of h_k", r"`theta_1` of h\_k"),
        ("text\n\n    x <- y * z_1\n\nmore_", "text\n\n    x <- y * z_1\n\nmore\\_"),
    ],
)
def test_prose(text, shown):
    assert prose(text) == shown


def test_a_sampler_without_defaults_has_a_page(tmp_path):
    (tmp_path / "bare_sampler.py").write_text(BARE)
    from harness.contracts.registry import Registry
    from plugins.pages.verb import page

    known = Registry([str(tmp_path / "bare_sampler.py")])
    text = page(sampler(known.find("samplers", "bare"), known))
    assert "some hyperparameters have no default" in text
    assert "stationary variance](" not in text


BARE = '''
from dataclasses import dataclass

from harness import Info, Sampler, hook, param


@dataclass(frozen=True, kw_only=True)
class Bare(Sampler):
    """Nothing."""

    a: float = param(allowed="(0, 1)", meaning="without a default")

    def step(self, theta, state, potential, h, T, noise):
        return theta - h * self.a * potential.grad(theta), state


@hook
def bench_samplers():
    return [Info("bare", "bare_sampler:Bare", "nothing")]
'''
