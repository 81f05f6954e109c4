from __future__ import annotations

import subprocess
import sys

import pytest

from harness.contracts.registry import Registry, registry
from harness.system.errors import UsageError

PLUGIN = "from harness import Info, hook\n@hook\ndef bench_samplers():\n    return [Info('{name}', 'm:A')]\n"


def test_unknown_names_come_with_near_matches():
    with pytest.raises(UsageError, match=r"did you mean .*msgld"):
        registry().find("samplers", "mgsld")
    with pytest.raises(UsageError, match=r"did you mean .*csgld"):
        registry().method("cgsld")


def test_a_clash_is_named_on_both_sides_and_solved_by_the_distribution(tmp_path):
    file = tmp_path / "clash_example.py"
    file.write_text(PLUGIN.format(name="sgld"))
    found = Registry([str(file)])
    with pytest.raises(UsageError, match=r"clash_example:sgld.*sgmcmc-bench:sgld"):
        found.find("samplers", "sgld")
    assert found.find("samplers", "sgmcmc-bench:sgld").distribution == "sgmcmc-bench"
    assert found.method("csgld").distribution == "sgmcmc-bench"
    named = {plugin.name: plugin.problems for plugin in found.plugins if plugin.problems}
    assert set(named) == {"samplers", "clash_example"}


def test_a_plugin_file_may_not_stand_in_front_of_a_module(tmp_path):
    file = tmp_path / "json.py"
    file.write_text("")
    with pytest.raises(UsageError, match="a module named 'json' already exists"):
        Registry([str(file)])


def test_a_shadowed_room_says_which_file_stands_in_front(tmp_path):
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "__init__.py").write_text("")
    script = (
        "from harness.contracts.registry import registry\n"
        "print([p.problems for p in registry().plugins if p.name == 'tasks'][0][0])\n"
    )
    environment = {"PYTHONPATH": str(tmp_path), "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "is shadowed by" in done.stdout
    assert str(tmp_path / "tasks") in done.stdout


def test_what_a_plugin_prints_stays_off_stdout(tmp_path, capsys):
    file = tmp_path / "talkative_example.py"
    file.write_text("print('hello')\n" + PLUGIN.format(name="talkative"))
    Registry([str(file)])
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "hello\n")


HANGS = {
    "sleeps": "import time; time.sleep(1000)",
    "spins": "while True: pass",
    "catches": "import time\nfor _ in range(3):\n    try: time.sleep(1000)\n    except Exception: pass",
}


def test_a_plugin_that_hangs_at_import_is_named_and_left_out(tmp_path, monkeypatch):
    for name, source in HANGS.items():
        (tmp_path / f"{name}.py").write_text(source)
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[bench]\n{name} = {name}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("harness.contracts.registry.IMPORT_SECONDS", 1.0)
    found = Registry()
    problems = {plugin.name: plugin.problems for plugin in found.plugins if plugin.name in HANGS}
    assert problems == {name: ["does not import: LateError: it took more than 1 s"] for name in HANGS}
    assert "sgld" in {offer.name for offer in found.offers("samplers")}
