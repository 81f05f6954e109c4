"""The cache of what plugins say of themselves: whatever lies there, the answers are those of the plugins."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import harness
from harness.contracts.registry import registry
from harness.runs import plugin_metadata
from harness.system.files import sealed

CONTENTS = (
    b"", b"3", b"null", b"[]", b'"x"', b"{}", b'{"fact": 3}', b'[{"name": 5}]', b"{", b"[" * 100_000, b"\xff",
    b'{"dim": "five", "version": null}', str(sealed({"fact": 3}) | {"fact": 4}).replace("'", '"').encode(),
)  # fmt: skip


def answers():
    plugin_metadata._known.clear()
    names = (("samplers", "sgld"), ("schedules", "cyclical"), ("tasks", "mixture5"))
    offers = [registry().find(*name) for name in names]
    return [*map(plugin_metadata.fields, offers), plugin_metadata.protocols(offers[2])]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path))
    yield tmp_path
    plugin_metadata._known.clear()


def test_other_content_is_not_taken_for_facts(cache):
    expected = answers()
    kept = {path: path.read_bytes() for path in cache.rglob("*.json")}
    assert kept
    for content in CONTENTS:
        for path in kept:
            path.write_bytes(content)
        assert answers() == expected, content
        assert {path: path.read_bytes() for path in kept} == kept


def test_other_code_of_the_harness_asks_again(tmp_path):
    """An installation that was updated, or edited, does not read what an earlier one noted of the same plugins."""
    shutil.copytree(Path(harness.__file__).parent, tmp_path / "harness", ignore=shutil.ignore_patterns("__pycache__"))
    ask = "import harness.runs.plugin_metadata as it; print(it.__file__, it._code())"

    def answer():
        given = os.environ | {"PYTHONPATH": str(tmp_path)}
        told = subprocess.run([sys.executable, "-P", "-c", ask], env=given, capture_output=True, text=True, check=True)
        file, digest = told.stdout.split()
        assert Path(file).is_relative_to(tmp_path)
        return digest

    digests = [answer()]
    assert digests == [plugin_metadata._code()]
    for changed in ("runs/plugin_metadata.py", "contracts/schedule.py", "engine/linear.py"):
        with (tmp_path / "harness" / changed).open("a") as edited:
            edited.write("# another version\n")
        digests.append(answer())
    assert len(set(digests)) == 4


@pytest.mark.parametrize("kind", ["a FIFO", "a directory", "a file of a terabyte"])
def test_what_cannot_be_read_is_not_waited_for(cache, kind):
    expected = answers()
    for path in cache.rglob("*.json"):
        path.unlink()
        if kind == "a FIFO":
            os.mkfifo(path)
        elif kind == "a directory":
            path.mkdir()
        else:
            path.touch()
            os.truncate(path, 2**40)
    assert answers() == expected


def test_a_setting_that_came_later_is_left_out_of_keys_at_its_default():
    """So results of the time before it keep their keys."""
    offer = registry().find("tasks", "airfoil")
    assert plugin_metadata.resolve(offer, {}) == {"batch": 256, "data_seed": 1}
    assert plugin_metadata.resolve(offer, {"hidden": "16-16-16", "variant": "smile"}) == {"batch": 256, "data_seed": 1}
    assert plugin_metadata.resolve(offer, {"hidden": "4"}) == {"batch": 256, "data_seed": 1, "hidden": "4"}
    assert plugin_metadata.instance(offer.target, plugin_metadata.resolve(offer, {})).hidden == "16-16-16"
