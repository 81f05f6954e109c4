"""Names that are not found: which plugin is left out, how names may be spelled, and whose packages are imported."""

import subprocess
import sys

import pytest
from support import forget, install

from harness import Bench, PluginError, Registry, UsageError
from harness.cli.app import run
from harness.contracts.registry import registry
from harness.reporting.requests import request_for
from harness.runs.source import made_of

INFO = "import harness\n@harness.hook\ndef bench_samplers():\n    "
WRONG = {
    "syntax": ("def f(:", "invalid syntax"),
    "absent": ("import absent_module", "No module named 'absent_module'"),
    "fails": ("1 / 0", "ZeroDivisionError"),
    "unmarked": ("def bench_samplers(): return []", "bench_samplers without @harness.hook"),
    "other": (INFO.replace("samplers", "sampler") + "return []", "unknown hook 'bench_sampler'"),
    "misspelt": ("def bench_sampler(): return []", "bench_sampler is no hook; did you mean bench_samplers"),
    "nothing": ("", "it has no hook"),
    "empty": (INFO + "return []", "its hooks return empty lists"),
    "forgot": (INFO + "[harness.Info('x', 'm:A')]", "must return a list of Info, not a NoneType"),
    "single": (INFO + "return harness.Info('x', 'm:A')", "must return a list of Info, not a Info"),
    "text": (INFO + "return ['x']", "is a str, not a Info"),
    "raises": (INFO + "raise ValueError('no')", "bench_samplers failed: ValueError: no"),
    "arguments": (INFO.replace("()", "(x)") + "return []", "hook refused"),
    "named": (INFO + "return [harness.Info('Mine', 'm:A')]", "name 'Mine' must match"),
    "target": (INFO + "return [harness.Info('x', 'm.A')]", "is not 'package.module:Class'"),
    "partly": (INFO + "return [harness.Info('well', 'm:A'), harness.Info('M', 'm:A')]", "name 'M' must match"),
    "exits": ("import os; os._exit(3)", "it ended its process (exit code 3)"),
    "hangs": ("import time; time.sleep(100)", "it took more than 5 s; BENCH_IMPORT_SECONDS=10 allows more"),
}


@pytest.fixture(scope="module")
def wrong(tmp_path_factory):
    """A registry with a plugin for each way in which one can be wrong."""
    folder = tmp_path_factory.mktemp("wrong")
    for name, (source, _) in WRONG.items():
        (folder / f"wrong_{name}.py").write_text(source)
        install(folder, f"wrong_{name}", **{"entry_points.txt": f"[bench]\nwrong_{name} = wrong_{name}\n"})
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setenv("BENCH_IMPORT_SECONDS", "5")
        return Registry()


@pytest.mark.parametrize("name", WRONG)
def test_each_way_in_which_a_plugin_is_wrong_is_named_where_a_name_is_unknown(wrong, name):
    for find in (lambda: wrong.find("tasks", "mine"), lambda: wrong.method("mine")):
        with pytest.raises(PluginError, match=r"unknown \w+ 'mine'") as caught:
            find()
        reason = str(caught.value).partition(f"wrong_{name} (wrong_{name}): ")[2].partition("; wrong_")[0]
        assert WRONG[name][1] in reason
    assert wrong.find("samplers", "sgld").name == "sgld"


LOOKUPS = (
    ["plan", "--sampler", "mine", "--task", "mixture5"],
    ["plan", "--sampler", "sgld", "--task", "mine"],
    ["plan", "--sampler", "sgld", "--task", "mixture5", "--schedule", "mine"],
    ["plan", "--sampler", "sgld", "--task", "mixture5", "--set", "mine:schedule.step_size=1"],
    ["check", "mine"],
    ["show", "mine"],
    ["show", "task", "mine"],
    ["report", "mine"],
    ["report", "leaderboard", "--task", "mine"],
    ["ls", "runs", "--method", "mine"],
    ["nightly", "mine", "--out", "site"],
    ["data", "fetch", "mine"],
    ["cite", "mine"],
    ["reproduce", "mine"],
    ["truth", "mine"],
    ["tune", "--sampler", "mine", "--task", "mixture5"],
    ["run", "--sampler", "sgld", "--task", "mine"],
    ["mine"],
)


@pytest.mark.parametrize("words", LOOKUPS, ids=" ".join)
def test_every_verb_names_it_with_exit_code_3_and_without_it_says_usage(tmp_path_factory, monkeypatch, capsys, words):
    folder = tmp_path_factory.getbasetemp() / "lookups"
    folder.mkdir(exist_ok=True)
    (folder / "idle_plugin.py").write_text("def bench_samplers(): return []")
    monkeypatch.chdir(folder)
    assert run(["--results", str(folder / "r"), "--plugin", str(folder / "idle_plugin.py"), *words]) == 3
    assert "idle_plugin (idle_plugin): bench_samplers without @harness.hook" in capsys.readouterr().err.splitlines()[-1]
    assert run(["--results", str(folder / "r"), *words]) == 2
    assert "mine" in capsys.readouterr().err


def test_a_method_whose_part_does_not_exist_is_a_problem_of_its_plugin(tmp_path):
    text = "import harness\n@harness.hook\ndef bench_methods():\n    return [harness.Method('mine', {}, {})]"
    for i, parts in enumerate((("'smgld'", "''"), ("'sgld'", "'cyclicla'"))):
        (tmp_path / f"parts_{i}.py").write_text(text.format(*parts))
        plugins = Registry([str(tmp_path / f"parts_{i}.py")])
        with pytest.raises(PluginError, match=rf"method mine \(parts_{i}\): unknown .* did you mean"):
            plugins.sampler(plugins.method("mine"))


def test_the_limit_of_an_import_is_a_variable(tmp_path, monkeypatch):
    (tmp_path / "slow_plugin.py").write_text("import time; time.sleep(100)")
    monkeypatch.setenv("BENCH_IMPORT_SECONDS", "0.5")
    with pytest.raises(PluginError, match=r"it took more than 0.5 s; BENCH_IMPORT_SECONDS=1 allows more"):
        Registry([str(tmp_path / "slow_plugin.py")])
    for text in ("0", "-1", "soon", "nan"):
        monkeypatch.setenv("BENCH_IMPORT_SECONDS", text)
        with pytest.raises(UsageError, match=f"BENCH_IMPORT_SECONDS is '{text}', not a number of seconds above zero"):
            Registry([str(tmp_path / "slow_plugin.py")])


NEIGHBOURS = """
import harness
from beside_module import NAME
from beside_package.inner import SUFFIX
from beside_folder.inner import LAST

@harness.hook
def bench_samplers():
    return [harness.Info(NAME + SUFFIX + LAST, "neighbouring:A")]
"""


def test_a_plugin_file_imports_its_neighbours_and_they_are_part_of_its_code(tmp_path):
    (tmp_path / "neighbouring.py").write_text(NEIGHBOURS)
    (tmp_path / "beside_module.py").write_text("NAME = 'a'")
    for name, text in (("package", "SUFFIX = 'b'"), ("folder", "LAST = 'c'")):
        (tmp_path / f"beside_{name}").mkdir()
        (tmp_path / f"beside_{name}" / "inner.py").write_text(text)
    (tmp_path / "beside_package" / "__init__.py").write_text("")
    forget("neighbouring")
    assert Registry([str(tmp_path / "neighbouring.py")]).find("samplers", "abc")
    files = made_of("neighbouring:A")[0]
    assert {"neighbouring", "beside_module", "beside_package.inner", "beside_folder.inner"} <= files.keys()
    assert {path.parent.parent if "inner" in name else path.parent for name, path in files.items()} == {tmp_path}


def test_a_neighbour_of_two_plugin_files_must_be_one(tmp_path):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}_of_two.py").write_text("import beside_both")
        (tmp_path / name / "beside_both.py").write_text("")
    with pytest.raises(PluginError, match=r"'beside_both' is beside several plugin files, in .*first and .*second"):
        Registry([str(tmp_path / name / f"{name}_of_two.py") for name in ("first", "second")])


def test_two_plugin_files_of_one_name_are_refused_and_one_file_may_be_given_twice(tmp_path):
    files = [tmp_path / name / "same_name.py" for name in ("first", "second")]
    for file in files:
        file.parent.mkdir()
        file.write_text("")
    with pytest.raises(UsageError, match=r"second/same_name\.py: its module has the name of .*first/same_name\.py"):
        Registry([*map(str, files)])
    assert [plugin.name for plugin in Registry([str(files[0])] * 2).plugins].count("same_name") == 1


@pytest.mark.parametrize(
    ("kind", "name", "meant"),
    [("samplers", "SGLD", "sgld"), ("tasks", "CIFAR-10", "cifar10"), ("tasks", "blr_heart", "blr-heart"),
     ("schedules", "Constant_then_polynomial", "constant-then-polynomial"), ("reports", "Leaderboard", "leaderboard"),
     ("samplers", "sgmcmc-bench:SG-HMC", "sghmc"), ("methods", "cSGLD", "csgld")],
)  # fmt: skip
def test_names_are_matched_without_case_and_hyphens(kind, name, meant):
    assert registry().find(kind, name).name == meant
    if kind in {"samplers", "methods"}:
        assert registry().method(name).name == meant


def test_a_distribution_of_our_name_does_not_make_a_plugin_ours(tmp_path, monkeypatch):
    (tmp_path / "forked.py").write_text(INFO + "return [harness.Info('new', 'forked:A')]")
    install(tmp_path, "sgmcmc-bench", **{"entry_points.txt": "[bench]\nmine = forked\n"})
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PluginError, match=r"mine .* its metadata has the name sgmcmc-bench, but built-in plugins are"):
        Registry().find("samplers", "new")


def test_a_spelling_that_two_names_have_is_no_name():
    assert Registry.spelled("AB", ["a-b", "c"]) == "a-b"
    assert Registry.spelled("AB", ["a-b", "ab"]) == "AB"
    assert Registry.spelled("ab", ["a-b", "ab"]) == "ab"


def test_filters_and_protocols_are_matched_too(tmp_path):
    frame = Bench(tmp_path).plan("SGLD", "Mixture-25@CSGMCMC", seeds=[0], schedule="Constant", settings=STEP)
    assert (frame["method"][0], frame["task"][0], frame["protocol"][0]) == ("sgld", "mixture25", "csgmcmc")
    filters = {"task": ["Mixture-25@CSGMCMC"], "method": ["SGLD"]}
    request = request_for(Bench(tmp_path).store(), registry(), filters)
    assert (request.tasks, request.methods, request.protocols) == (("mixture25",), ("sgld",), ("csgmcmc",))


STEP = {"schedule.step_size": 0.01}
SHADOWED = """
from harness.cli import main
main(["--results", "r", "plan", "--sampler", "sgld", "--task", "gaussian2d", "--seeds", "0", "--budget", "steps=9"])
"""
BEFORE = "import tasks, harness; harness.Bench('r').plan('sgld', 'gaussian2d')"


@pytest.mark.parametrize(("program", "code"), [(SHADOWED, 0), (BEFORE, 1)])
def test_ours_are_imported_whatever_stands_before_them(tmp_path, program, code):
    for name in ("tasks", "plugins"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
    (tmp_path / "reports.py").write_text("")
    program = f"import sys; sys.path[:0] = [{str(tmp_path)!r}]\n{program}"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    if code:
        where = tmp_path / "tasks" / "__init__.py"
        assert f"PluginError: the package 'tasks' of sgmcmc-bench is shadowed by {where}" in done.stderr
    else:
        assert "gaussian2d" in done.stdout
