import json
import sys

import pytest

from harness.results import environment
from harness.runs.source import _equal, content_hash, plugin_packages, source_hash
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
    monkeypatch.syspath_prepend(str(tmp_path))
    content_hash.cache_clear()
    yield folder
    for name in [name for name in sys.modules if name.startswith("examplepkg")]:
        del sys.modules[name]


def digest(target):
    content_hash.cache_clear()
    _equal.cache_clear()
    return source_hash(target)


@pytest.mark.parametrize("module", ["method", "relative"])
def test_a_change_in_what_it_imports_from_its_package_changes_the_hash(package, module):
    before = digest(f"examplepkg.{module}:A")
    (package / "unused.py").write_text("Y = 2\n")
    assert digest(f"examplepkg.{module}:A") == before
    (package / "helper.py").write_text("X = 2\n")
    assert digest(f"examplepkg.{module}:A") != before


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


def test_what_a_package_itself_defines_is_covered_where_it_is_imported(package):
    (package / "method.py").write_text("from . import X\nclass A: pass\n")
    (package / "__init__.py").write_text("X = 1\n")
    before = digest("examplepkg.method:A")
    (package / "__init__.py").write_text("X = 2\n")
    assert digest("examplepkg.method:A") != before


def test_data_files_beside_the_code_are_covered(package):
    (package / "truth").mkdir()
    (package / "truth" / "moments.json").write_text("1")
    before = digest("examplepkg.method:A")
    (package / "truth" / "moments.json").write_text("2")
    after = digest("examplepkg.method:A")
    assert after != before
    (package / "notes.txt").write_text("not data")
    assert digest("examplepkg.method:A") == after


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


def test_modules_outside_the_package_are_covered_unless_they_are_installed(package, tmp_path, monkeypatch):
    (tmp_path / "examplepkghelper.py").write_text("import examplepkgdeeper\n")
    (tmp_path / "examplepkgdeeper.py").write_text("Y = 1\n")
    (package / "method.py").write_text("import examplepkghelper\nclass A: pass\n")
    before = digest("examplepkg.method:A")
    (tmp_path / "examplepkgdeeper.py").write_text("Y = 2\n")
    assert digest("examplepkg.method:A") != before
    site = tmp_path / "site-packages"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    (site / "examplepkglibrary.py").write_text("Y = 1\n")
    (package / "method.py").write_text("import examplepkglibrary\nclass A: pass\n")
    before = digest("examplepkg.method:A")
    (site / "examplepkglibrary.py").write_text("Y = 2\n")
    assert digest("examplepkg.method:A") == before, "installed code is told apart by its version"


def test_code_of_the_packages_around_a_module_is_covered(package):
    before = digest("examplepkg.method:A")
    (package / "__init__.py").write_text('"""Says what it is."""\n')
    assert digest("examplepkg.method:A") == before
    (package / "__init__.py").write_text("import torch\ntorch.set_default_dtype(torch.float64)\n")
    assert digest("examplepkg.method:A") != before


def install(site, name, version, requires=()):
    """What an installer leaves behind of a distribution with one module."""
    info = site / f"{name}-0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"Requires-Dist: {line}\n" for line in requires)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{lines}")
    (info / "top_level.txt").write_text(f"{name}\n")
    (site / f"{name}.py").write_text("")


@pytest.mark.parametrize("how", ["declared", "imported", "of an extra", "of a dependency"])
def test_versions_of_what_a_plugin_depends_on_are_covered(package, tmp_path, monkeypatch, how):
    given = environment.requirements((environment.HARNESS,))
    every = environment.requirements.__wrapped__
    monkeypatch.setattr("harness.runs.source.requirements", lambda names, but=(): every(names, but) if but else given)
    site = tmp_path / "site-packages"
    monkeypatch.syspath_prepend(str(site))
    requires = {"declared": ["exampledep"], "of an extra": ["examplebase[fast]"], "of a dependency": ["examplebase"]}
    install(site, "exampledist", "1.0", [*requires.get(how, []), "torch", "sgmcmc-bench", "numpy"])
    extra = '; extra == "fast"' if how == "of an extra" else ""
    install(site, "examplebase", "1.0", [f"exampledep{extra}"] if how not in ("declared", "imported") else [])
    (package / "method.py").write_text(f"import torch\n{'import exampledep' * (how == 'imported')}\nclass A: pass\n")
    monkeypatch.setattr("harness.runs.source.plugin_packages", lambda: {"examplepkg": "exampledist"})
    hashes = {}
    for version in ("1.0", "1.1"):
        install(site, "exampledep", version)
        hashes[version] = digest("examplepkg.method:A")
    install(site, "exampleother", "1.0")
    assert digest("examplepkg.method:A") == hashes["1.1"] != hashes["1.0"]


def test_the_built_in_plugins_are_rooms():
    assert {"plugins", "tasks"} <= set(plugin_packages())


def test_errors_name_the_module(package):
    with pytest.raises(PluginError, match=r"examplepkg\.nowhere"):
        digest("examplepkg.nowhere:A")
    (package / "method.py").write_text("def broken(:\n")
    with pytest.raises(PluginError, match="line 1"):
        digest("examplepkg.method:A")
