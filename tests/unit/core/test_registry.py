import os
import re
import sys
import time

import pytest
from support import install

from harness.cli.app import run
from harness.contracts.registry import Registry, registry
from harness.runs.source import forget_code
from harness.system.errors import PluginError, UsageError

PLUGIN = "from harness import Info, hook\n@hook\ndef bench_samplers():\n    return [Info('{name}', 'm:A')]\n"


def test_unknown_names_come_with_near_matches():
    with pytest.raises(UsageError, match=r"did you mean .*msgld"):
        registry().find("samplers", "mgsld")
    with pytest.raises(UsageError, match=r"did you mean .*csgld"):
        registry().method("cgsld")


METHOD = "from harness import Method, hook\n@hook\ndef bench_methods():\n    return [Method('{name}', 'sgld', '')]\n"


@pytest.mark.parametrize("source", [PLUGIN, METHOD], ids=["sampler", "method"])
@pytest.mark.parametrize("name", ["sgld", "csgld", "sg-ld"])
def test_a_built_in_name_cannot_be_taken(tmp_path, monkeypatch, source, name):
    install_module(tmp_path, "taken_example", source.format(name=name))
    monkeypatch.syspath_prepend(tmp_path)
    plugins = Registry()
    assert plugins.method(name).distribution == plugins.method("SGLD").distribution == "sgmcmc-bench"
    (problem,) = next(plugin.problems for plugin in plugins.plugins if plugin.name == "taken_example")
    assert re.search(rf"{name!r} has the name of a (sampler|method) of sgmcmc-bench, which is reserved", problem)
    with pytest.raises(PluginError, match="which is reserved"):
        Registry([str(tmp_path / "taken_example.py")])


PLAIN_FACT = """
from harness import Info, hook

def references():
    return {}

@hook
def bench_facts():
    return [Info("reference", "fact_example:references"), Info("sampler", "fact_example:references")]
"""
GROUPS = """
from harness import Info, hook

@hook
def bench_tasks():
    return [Info("mine", "m:A", group="densities"), Info("other", "m:A", group="others")]

@hook
def bench_samplers():
    return [Info("mine", "plugins.samplers.sgld:SGLD", law="m:Law")]
"""


def test_facts_are_added_whatever_their_names(tmp_path):
    (tmp_path / "fact_example.py").write_text(PLAIN_FACT)
    plugins = Registry([str(tmp_path / "fact_example.py")])
    assert {"reference", "sampler"} <= {o.name for o in plugins.offers("facts") if o.distribution == "fact_example"}


def test_groups_and_laws_of_ours_stay_ours(tmp_path):
    file = tmp_path / "group_example.py"
    file.write_text(GROUPS)
    ours, plugins = Registry(), Registry([str(file)])
    assert plugins.task_groups() == {**ours.task_groups(), "others": ["other"]}
    assert plugins.laws.get("plugins.samplers.sgld:SGLD") == ours.laws.get("plugins.samplers.sgld:SGLD") != "m:Law"
    file.write_text(GROUPS.replace('"mine", "m:A"', '"posteriordb", "m:A"'))
    with pytest.raises(PluginError, match="task 'posteriordb' has the name of a group of sgmcmc-bench"):
        Registry([str(file)])


def test_a_clash_is_named_on_both_sides_and_solved_by_the_distribution(tmp_path):
    for file in ("clash_one", "clash_two"):
        (tmp_path / f"{file}.py").write_text(PLUGIN.format(name="mine"))
    (tmp_path / "clash_method.py").write_text(METHOD.format(name="mine"))
    plugins = Registry([str(tmp_path / "clash_one.py"), str(tmp_path / "clash_two.py")])
    with pytest.raises(UsageError, match=r"clash_one:mine.*clash_two:mine"):
        plugins.find("samplers", "mine")
    assert plugins.find("samplers", "clash_two:mine").distribution == "clash_two"
    named = {plugin.name: plugin.problems for plugin in plugins.plugins if plugin.problems}
    assert set(named) == {"clash_one", "clash_two"}
    plugins = Registry([str(tmp_path / "clash_one.py"), str(tmp_path / "clash_method.py")])
    with pytest.raises(UsageError, match="'mine' is a method of clash_method and a sampler of clash_one; say which"):
        plugins.method("mine")
    assert plugins.method("clash_one:mine").kind == "methods"
    assert plugins.method("clash_method:mine").info.sampler == "sgld"


def test_a_plugin_file_may_not_stand_in_front_of_a_module(tmp_path):
    file = tmp_path / "json.py"
    file.write_text("")
    with pytest.raises(UsageError, match="a module named 'json' already exists"):
        Registry([str(file)])


def test_what_a_plugin_prints_stays_off_stdout(tmp_path, capfd):
    file = tmp_path / "talkative_example.py"
    file.write_text("print('hello')\n" + PLUGIN.format(name="talkative"))
    Registry([str(file)])
    said = capfd.readouterr()
    assert (said.out, said.err) == ("", "hello\n")


def test_ctrl_c_is_no_fault_of_the_plugin_that_is_being_imported(tmp_path):
    """It goes to the whole process group, and the command may notice its own later than the end of this process."""
    file = tmp_path / "interrupted_example.py"
    file.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n" + PLUGIN.format(name="interrupted"))
    assert Registry([str(file)]).method("interrupted")


ENDS = {
    "sleeps": ("import time; time.sleep(1000)", "it took more than 1 s; BENCH_IMPORT_SECONDS=2 allows more"),
    "spins": ("while True: pass", "it took more than 1 s; BENCH_IMPORT_SECONDS=2 allows more"),
    "catches": (
        "import time\nfor _ in range(3):\n    try: time.sleep(1000)\n    except Exception: pass",
        "it took more than 1 s; BENCH_IMPORT_SECONDS=2 allows more",
    ),
    "exits": ("import os; os._exit(3)", "it ended its process (exit code 3)"),
    "forks": ("import os, time\nif os.fork() == 0: time.sleep(40)\nos._exit(3)", "it ended its process (exit code 3)"),
    "crashes": ("import os; os.abort()", "it ended its process (signal 6)"),
    "quits": ("import sys; sys.exit(4)", "SystemExit: 4"),
}


def install_module(folder, name, source):
    (folder / f"{name}.py").write_text(source)
    install(folder, name, **{"entry_points.txt": f"[bench]\n{name} = {name}\n"})


def test_a_plugin_that_hangs_or_ends_its_process_at_import_is_named_and_left_out(tmp_path, monkeypatch):
    for name, (source, _) in ENDS.items():
        install_module(tmp_path, name, source)
    install_module(tmp_path, "well", PLUGIN.format(name="well"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("harness.contracts.registry.IMPORT_SECONDS", 1.0)
    began = time.monotonic()
    plugins = Registry()
    assert time.monotonic() - began < 38, "a process that a plugin left behind was waited for"
    problems = {plugin.name: plugin.problems for plugin in plugins.plugins if plugin.name in ENDS}
    assert problems == {name: [f"does not import: {reason}"] for name, (_, reason) in ENDS.items()}
    assert {"sgld", "well"} <= {offer.name for offer in plugins.offers("samplers")}


WATCHED = """
import os
open({log!r}, "a").write(f"{{os.getpid()}}\\n")
from dataclasses import dataclass
from harness import Info, Sampler, hook
from plugins.samplers.sgld import SGLD

@dataclass(frozen=True, kw_only=True)
class Watched(SGLD):
    pass

@hook
def bench_samplers():
    return [Info("watched", "watched:Watched"), Info("hangs", "hangs:A"), Info("exits", "exits:A")]
"""
VERBS = (
    ["ls", "samplers"], ["plugins"],
    ["plan", "--sampler", "watched", "--task", "mixture5", "--budget", "steps=20"],
    ["run", "--sampler", "watched", "--task", "mixture5", "--budget", "steps=20", "--seeds", "0",
     "--set", "schedule.step_size=0.01"],
)  # fmt: skip


@pytest.mark.parametrize("way", ["installed", "file"])
def test_no_verb_executes_a_plugin_in_its_own_process(tmp_path, monkeypatch, capfd, way):
    log = tmp_path / "log"
    source = WATCHED.format(log=str(log))
    folder = tmp_path / "site"
    folder.mkdir()
    words = ["--results", str(tmp_path / "results")]
    if way == "installed":
        install_module(folder, "watched", source)
    else:
        (folder / "watched.py").write_text(source)
        words += ["--plugin", str(folder / "watched.py")]
    (folder / "hangs.py").write_text("import time\ntime.sleep(600)")
    (folder / "exits.py").write_text("import os; os._exit(3)")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("harness.runs.plugin_metadata._known", {})
    monkeypatch.setattr("harness.runs.children.SECONDS", 3.0)
    registry.cache_clear()
    forget_code()
    for verb in VERBS if way == "installed" else VERBS[2:3]:
        log.unlink(missing_ok=True)
        assert run([*words, *verb]) == 0
        said = capfd.readouterr()
        assert verb[0] not in ("ls", "plan") or "watched" in said.out
        assert (
            str(os.getpid()) not in [line.split()[0] for line in log.read_text().splitlines()] if log.exists() else True
        )
        assert "watched" not in sys.modules
        if verb == ["plugins"]:
            assert (
                "sampler 'hangs': it took more than 3 s; sampler 'exits': it ended its process (exit code 3)"
                in said.err
            )
    assert run([*words, "plan", "--sampler", "exits", "--task", "mixture5", "--budget", "steps=20"]) == 3
    assert "exits:A (watched): it ended its process (exit code 3)" in capfd.readouterr().err
    registry.cache_clear()
