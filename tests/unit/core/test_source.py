import json
import sys

import pytest
from support import install

from harness.results import environment
from harness.runs.source import _equal, content_hash, forget_code, made_of, plugin_packages, source_hash
from harness.system.errors import PluginError


@pytest.fixture
def package(tmp_path, monkeypatch):
    folder = tmp_path / "examplepkg"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "helper.py").write_text("X = 1\n")
    (folder / "unused.py").write_text("Y = 1\n")
    (folder / "method.py").write_text("import numpy\nfrom examplepkg.helper import X\nclass A: pass\n")
    (folder / "relative.py").write_text("from .helper import X\nclass A: pass\n")
    (tmp_path / "site-packages").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path / "site-packages"))
    monkeypatch.syspath_prepend(str(tmp_path))
    forget_code()
    yield folder
    for name in [name for name in sys.modules if name.startswith("examplepkg")]:
        del sys.modules[name]


def digest(target):
    forget_code()
    _equal.cache_clear()
    return source_hash(target)


OF_ITS_PACKAGE = [("unused.py", "Y = 2\n", False), ("helper.py", "X = 2\n", True)]
COVERED = {
    "an import of its package": ({}, OF_ITS_PACKAGE),
    "a relative import": ({"method.py": "from .helper import X\nclass A: pass\n"}, OF_ITS_PACKAGE),
    "what its package defines": (
        {"method.py": "from . import X\nclass A: pass\n", "__init__.py": "X = 1\n"},
        [("__init__.py", "X = 2\n", True)],
    ),
    "code of the package around it": (
        {}, [("__init__.py", '"""Says what it is."""\n', False), ("__init__.py", "import torch\ntorch.seed()\n", True)],
    ),
    "data files beside the code": ({"data.json": "1"}, [("data.json", "2", True), ("notes.txt", "not data", False)]),
    "modules outside its package": (
        {
            "method.py": "import examplepkghelper\nclass A: pass\n",
            "../examplepkghelper.py": "import examplepkgdeeper\n", "../examplepkgdeeper.py": "Y = 1\n",
        },
        [("../examplepkgdeeper.py", "Y = 2\n", True)],
    ),
    "an installed module, told apart by its version": (
        {"method.py": "import examplepkglibrary\nclass A: pass\n", "../site-packages/examplepkglibrary.py": "Y = 1\n"},
        [("../site-packages/examplepkglibrary.py", "Y = 2\n", False)],
    ),
}  # fmt: skip
"""Files, and changes to files that change the hash or not."""


@pytest.mark.parametrize(("files", "changes"), COVERED.values(), ids=COVERED)
def test_a_change_in_what_is_executed_changes_the_hash(package, files, changes):
    for name, text in files.items():
        (package / name).write_text(text)
    before = digest("examplepkg.method:A")
    for name, text, changed in changes:
        (package / name).write_text(text)
        after = digest("examplepkg.method:A")
        assert (after != before) == changed, name
        before = after


def test_code_that_a_package_declares_equal_to_older_code_has_its_hash(package):
    before, other = digest("examplepkg.method:A"), digest("examplepkg.relative:A")
    (package / "method.py").write_text("# the same\nimport numpy\nfrom examplepkg.helper import X\nclass A: pass\n")
    after = digest("examplepkg.method:A")
    assert after != before
    (package / "equal_sources.json").write_text(json.dumps({after: before}))
    assert digest("examplepkg.method:A") == before
    assert content_hash("examplepkg.method:A") == after
    assert digest("examplepkg.relative:A") == other
    (package / "equal_sources.json").write_text("[")
    with pytest.raises(PluginError, match="equal_sources"):
        digest("examplepkg.method:A")


def test_nothing_is_imported_to_find_the_hash(package):
    (package / "method.py").write_text("raise RuntimeError('imported')\n")
    (package / "child.py").write_text("from examplepkg.method import A\nclass B(A): pass\n")
    assert digest("examplepkg.method:A")
    assert digest("examplepkg.child:B")
    assert not [name for name in sys.modules if name.startswith("examplepkg")]


def test_a_base_class_in_the_package_of_another_plugin_is_covered(package, tmp_path, monkeypatch):
    other = tmp_path / "examplepkgtwo"
    other.mkdir()
    (other / "__init__.py").write_text("")
    (other / "base.py").write_text("X = 1\n")
    (package / "method.py").write_text("from examplepkgtwo.base import X\nclass A: pass\n")
    monkeypatch.setattr("harness.runs.source.plugin_packages", lambda: {"examplepkgtwo": "another"})
    before = digest("examplepkg.method:A")
    (other / "base.py").write_text("X = 3\n")
    assert digest("examplepkg.method:A") != before


def test_a_file_that_a_module_declares_is_covered_and_must_exist(package):
    (package / "helper.py").write_text("X = 1\n__files__ = ['weights/first.bin']\n")
    with pytest.raises(PluginError, match=r"helper.py: line 2: __files__ names .*first.bin, which is no file"):
        digest("examplepkg.method:A")
    (package / "weights").mkdir()
    (package / "weights" / "first.bin").write_bytes(b"1")
    before = digest("examplepkg.method:A")
    (package / "weights" / "first.bin").write_bytes(b"2")
    assert digest("examplepkg.method:A") != before
    (package / "helper.py").write_text("X = 1\n__files__ = sorted(X)\n")
    with pytest.raises(PluginError, match="is not a list of file names"):
        digest("examplepkg.method:A")


def install_module(site, name, version, requires=()):
    install(site, name, version, requires, **{"top_level.txt": f"{name}\n"})
    (site / f"{name}.py").write_text("")


@pytest.mark.parametrize("how", ["declared", "imported", "of an extra", "of a dependency"])
def test_versions_of_what_a_plugin_depends_on_are_covered(package, tmp_path, monkeypatch, how):
    given = environment.requirements((environment.HARNESS,))
    every = environment.requirements.__wrapped__
    monkeypatch.setattr("harness.runs.source.requirements", lambda names, but=(): every(names, but) if but else given)
    site = tmp_path / "site-packages"
    requires = {"declared": ["exampledep"], "of an extra": ["examplebase[fast]"], "of a dependency": ["examplebase"]}
    install_module(site, "exampledist", "1.0", [*requires.get(how, []), "torch", "sgmcmc-bench", "numpy"])
    extra = '; extra == "fast"' if how == "of an extra" else ""
    install_module(site, "examplebase", "1.0", [f"exampledep{extra}"] if how not in ("declared", "imported") else [])
    (package / "method.py").write_text(f"import torch\n{'import exampledep' * (how == 'imported')}\nclass A: pass\n")
    monkeypatch.setattr("harness.runs.source.plugin_packages", lambda: {"examplepkg": "exampledist"})
    hashes = {}
    for version in ("1.0", "1.1"):
        install_module(site, "exampledep", version)
        hashes[version] = digest("examplepkg.method:A")
    install_module(site, "exampleother", "1.0")
    assert digest("examplepkg.method:A") == hashes["1.1"] != hashes["1.0"]


def test_the_built_in_plugins_are_rooms():
    assert {"plugins", "tasks"} <= set(plugin_packages())


def test_errors_name_the_module(package):
    with pytest.raises(PluginError, match=r"examplepkg\.nowhere"):
        digest("examplepkg.nowhere:A")
    (package / "method.py").write_text("def broken(:\n")
    with pytest.raises(PluginError, match="line 1"):
        digest("examplepkg.method:A")


def test_the_code_is_parsed_once_until_it_is_forgotten(package, monkeypatch):
    before = content_hash("examplepkg.method:A"), made_of("examplepkg.method:A")
    with monkeypatch.context() as patch:  # each run of a block asks which files its code covers
        patch.delattr("harness.runs.source._tree")
        assert (content_hash("examplepkg.method:A"), made_of("examplepkg.method:A")) == before
    forget_code()
    (package / "method.py").write_text("import numpy\nclass A: pass\n")
    assert "examplepkg.helper" in before[1][0]
    assert "examplepkg.helper" not in made_of("examplepkg.method:A")[0]
