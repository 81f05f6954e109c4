"""Imports within the harness go one way, and nothing in it imports what lives outside."""

import ast
import importlib
import re
from pathlib import Path

import pytest

import harness
from harness.contracts.registry import KINDS, registry

HOME = Path(harness.__file__).parent
ORDER = ("system", "analysis", "contracts", "engine", "results", "runs", "reporting", "application", "cli")
"""Each imports only those before it. An import for types counts."""
OUTSIDE = ("plugins", "tasks", "reports", "tests")
PUBLIC = {module.__name__: module for module in (harness, harness.tasks, harness.reports)}
"""What anybody may use: authors of samplers and notebooks, of tasks, of reports."""
PUBLIC_ONLY = ("reports", "tasks")
"""Packages that use what is public, as a stranger's does."""


def imported(path):
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").split(".")


def test_the_harness_has_these_entries():
    folders = {path.name for path in HOME.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == set(ORDER)
    assert {path.name for path in HOME.iterdir() if path.is_file()} == {
        "py.typed",
        *(f"{name}{kind}" for name in ("__init__", "tasks", "reports") for kind in (".py", ".pyi")),
    }


def test_tests_that_compare_numbers_are_marked_in_their_files():
    """`nox -s tests` imports only the files with the mark under other kernels."""
    helpers = [path for path in Path(__file__).parents[1].rglob("*.py") if not path.name.startswith("test_")]
    assert not [path for path in helpers if "mark.numbers" in path.read_text(encoding="utf-8")]


def test_imports_go_one_way():
    wrong = []
    for path in sorted(HOME.glob("*/**/*.py")):
        importer = path.relative_to(HOME).as_posix()
        for first, *rest in imported(path):
            later = first == "harness" and rest and ORDER.index(rest[0]) > ORDER.index(importer.split("/")[0])
            if later or first in OUTSIDE:
                wrong.append(f"{importer} imports {'.'.join([first, *rest])}")
    assert not wrong


def imports_within(home):
    """The files of a package, by module, that each of them imports, anywhere in it."""
    files = {".".join([home.name, *path.relative_to(home).with_suffix("").parts]): path for path in home.rglob("*.py")}
    files = {name.removesuffix(".__init__"): path for name, path in files.items()}
    imports = {}
    for name, path in files.items():
        named = set()
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                named |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                inner = {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
                named |= {one if one in files else str(node.module) for one in inner.values()}
        imports[name] = named & files.keys() - {name, home.name}
    return imports


def circles(imports):
    """The sets of modules that import each other, directly or not."""

    def reached(start):
        seen, waiting = set(), [start]
        while waiting:
            for name in imports[waiting.pop()] - seen:
                seen.add(name)
                waiting.append(name)
        return seen

    reach = {name: reached(name) for name in imports}
    return {
        tuple(sorted(other for other in reach[name] if name in reach[other])) for name in imports if name in reach[name]
    }


def test_no_files_of_the_harness_import_each_other(tmp_path):
    assert not circles(imports_within(HOME))
    package = tmp_path / "package"
    package.mkdir()
    for name, other in (("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")):
        (package / f"{name}.py").write_text(f"def f():\n    from package.{other} import f\n")
    assert circles(imports_within(package)) == {("package.a", "package.b", "package.c")}


@pytest.mark.parametrize("package", PUBLIC_ONLY)
def test_outside_of_the_core_only_public_names_are_used(package):
    wrong = []
    for path in sorted((HOME.parent / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            names = [alias.name for alias in getattr(node, "names", [])]
            if isinstance(node, ast.Import):
                wrong += [f"{path.name} imports {name}" for name in names if name.startswith("harness.")]
            elif isinstance(node, ast.ImportFrom):
                first = (node.module or "").partition(".")[0]
                if first == "harness":
                    offered = PUBLIC[node.module].__all__ if node.module in PUBLIC else ()
                    wrong += [f"{path.name} imports {name}, which is not public" for name in set(names) - set(offered)]
                elif first in set(OUTSIDE) - {package}:
                    wrong.append(f"{path.name} imports {node.module}")
    assert not wrong


FACES = {
    path.parent.name: importlib.import_module(f"harness.{path.parent.name}") for path in HOME.glob("*/__init__.pyi")
}
"""The folders whose `__init__.pyi` lists what features use of them beyond the public names."""
MOST = 120
"""Names that these folders together may list."""


def test_every_public_name_is_there():
    assert all(getattr(module, name) is not None for module in PUBLIC.values() for name in module.__all__)
    assert len(harness.__all__) <= 26


def test_the_folders_offer_few_names_that_are_not_public_already():
    assert sum(len(face.__all__) for face in FACES.values()) <= MOST
    public = {id(getattr(module, name)) for module in PUBLIC.values() for name in module.__all__}
    assert not [name for face in FACES.values() for name in face.__all__ if id(getattr(face, name)) in public]


@pytest.mark.parametrize("folder", FACES)
def test_no_module_of_a_folder_hides_what_the_folder_offers(folder):
    """A module that was imported is an attribute of its package, whatever `__getattr__` would return by that name."""
    modules = {path.stem for path in (HOME / folder).iterdir()}
    stub = ast.parse((HOME / folder / "__init__.pyi").read_bytes())
    offers = [(node.module, node.names[0].name) for node in stub.body]
    assert not {name for module, name in offers if module != f"harness.{folder}"} & modules


@pytest.mark.parametrize("folder", FACES)
def test_what_a_folder_offers_is_documented_where_it_is_defined(folder):
    undocumented = set(FACES[folder].__all__)
    for node in ast.parse((HOME / folder / "__init__.pyi").read_bytes()).body:
        path = HOME.parent.joinpath(*node.module.split("."))
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        undocumented -= documented(path, node.names[0].name)
    assert not undocumented


def documented(path, name):
    """The name, in a set, if the module at this path defines it, or is a package with this module, with a docstring."""
    if (path.parent / f"{name}.py").exists() and path.name == "__init__.py":
        return {name} if ast.get_docstring(ast.parse((path.parent / f"{name}.py").read_bytes())) else set()
    body = ast.parse(path.read_bytes()).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        if getattr(node, "name", "") == name and ast.get_docstring(node):
            return {name}
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        if text and name in {getattr(target, "id", "") for target in targets}:
            return {name}
    return set()


WORDS = {
    "autocorrelation",
    "best",
    "bias",
    "curves",
    "density",
    "energy",
    "entropy",
    "functions",
    "ood",
    "schedules",
    "targets",
    "trace",
    "trajectory",
}
"""Names of reports and tasks that are also words of the core."""
MEANT = {
    "contracts/truth.py names tempering": "the method of sampling, not the report",
    "contracts/sampler.py names sgd": "the optimiser that most samplers are at T = 0",
    "runs/plan.py names cycles": "more cycles than steps are refused when planning",
    "contracts/hookspecs.py names constant": "the schedule where none is named",
}


def test_the_core_names_no_plugin():
    """No sampler, schedule, method, task, report or paper, in code or in a message. Docstrings and examples may."""
    known = registry()
    names = {offer.name for kind in KINDS if kind != "verbs" for offer in known.offers(kind)} - WORDS
    names |= {path.stem for plugin in known.plugins for path in plugin.papers}
    mentions = set()
    for path in sorted(HOME.rglob("*.py")):
        tree = ast.parse(path.read_bytes())
        notes = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            text = isinstance(node, ast.Constant) and isinstance(node.value, str)
            if text and id(node) not in notes and "Examples:\n" not in node.value:
                words = set(re.findall(r"[a-z][a-z0-9_-]*", node.value)) & names
                mentions |= {f"{path.relative_to(HOME)} names {name}" for name in words}
    assert mentions == MEANT.keys()


EXCEPTIONS = {
    "contracts.parameters.LONGEST_VALUE": "`bench score` refuses what a record could not hold",
    "contracts.predictions.averaged_scores": "predictions of other software are scored as the kit scores its own",
    "contracts.predictions.reference_of": "as `averaged_scores`",
    "engine.stepping.execution_mode": "`bench doctor` says whether runs are compiled",
    "reporting.commands.asked": "`bench verify` plans a row again from its command",
    "reporting.commands.run_command": "a page shows the command that repeats a row",
    "reporting.rendering.FORMATS": "pages hold a figure in every format",
    "reporting.rendering.SUFFIXES": "as `FORMATS`",
    "reporting.rendering.figures": "as `FORMATS`",
    "reporting.rendering.figures.drawn": "the page of a sampler has figures that no report makes",
    "reporting.rendering.web": "pages are made of the same HTML as reports",
    "reporting.scoring.cache.FOLDER": "`bench gc` knows every file of a results folder",
    "reporting.scoring.compare.FEWEST": "nights are compared by the rules for reports",
    "reporting.scoring.compare.Scale": "as `FEWEST`",
    "results.ledger.attempt.result_damage": "an attempt that arrives is checked as one that is read",
    "results.ledger.ledger.TRASH": "`bench gc` deletes through it",
    "results.spec.MAX_STEPS": "a page states the limit",
    "results.spec.Origin": "`bench score` states where its settings come from",
    "results.store.schema.VIEWS": "the data dictionary lists the views",
    "runs.children.plugin_call": "`bench plugins` reads a broken plugin in a child",
    "runs.children.without_main": "`bench check` starts processes that must not run the caller's script",
    "runs.failure.DiskError": "a full disk ends `bench rescore`, a plugin's failure does not",
    "runs.local": "an agent, and `bench reproduce`, run workers as the command does",
    "runs.local.LaunchSummary": "a launcher tells how its runs ended",
    "runs.plugin_metadata.parts": "draws are scored again with the schedule of their run",
    "runs.settings.source_of_budget": "the ledger of the papers says which settings a budget changes",
    "runs.settings.unmet": "`--sampler all` leaves out what cannot run",
    "runs.source.hash_of": "as `made_of`",
    "runs.source.made_of": "an exported folder has the code of what was run",
    "runs.source.numbers_of": "as `made_of`",
    "runs.source.plugin_packages": "a launcher sends the files beside a plugin file, and no installed ones",
    "runs.undeclared": "a law notices the files that a task reads",
    "system.arithmetic.decides": "a law compares processes with the same arithmetic only",
    "system.arithmetic.variables": "an agent has the arithmetic of the command",
    "system.cpp.COMPILERS": "`bench doctor` names the compilers that work",
    "system.cpp.identity": "`bench doctor` shows the compiler's version",
    "system.files.ABANDONED_SECONDS": "`bench gc` knows every temporary name",
    "system.files.ENDING": "`bench gc` knows every temporary name",
    "system.files.holds": "`bench new` leaves a file that has its content alone",
    "system.files.is_abandoned": "`bench gc` leaves files of running commands alone",
    "system.files.regular": "`bench merge` follows no link",
    "system.import_path.command": "an agent, and a law, run a module of ours in a process",
    "system.import_path.import_path": "a law resumes a run in a process with the same import path",
    "system.import_path.passed_on": "the processes of `bench check` find the caller's modules",
    "system.import_path.restore": "as `passed_on`",
    "system.streams.has_colour": "`bench status --watch` draws on the terminal itself",
    "system.streams.say": "pages are written with progress, also without a bench",
    "system.text.plain": "the texts of other people's results are shown as they are",
}
"""What our features import from inside the harness, beyond what its folders offer, and why."""


def test_features_import_from_inside_the_harness_only_what_is_listed():
    inside = []
    for path in sorted((HOME.parent / "plugins").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            inner = isinstance(node, ast.ImportFrom) and (node.module or "").startswith("harness.")
            if inner and node.module not in PUBLIC:
                module = node.module.removeprefix("harness.")
                offered = FACES[module].__all__ if module in FACES else ()
                inside += [f"{module}.{alias.name}" for alias in node.names if alias.name not in offered]
    assert set(inside) == EXCEPTIONS.keys()
    assert len(inside) <= 60
