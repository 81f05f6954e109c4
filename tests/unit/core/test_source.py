from __future__ import annotations

import sys

import pytest

from harness.errors import PluginError
from harness.source import _plugin_rooms, source_hash


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
    source_hash.cache_clear()
    yield folder
    for name in [name for name in sys.modules if name.startswith("examplepkg")]:
        del sys.modules[name]


def digest(target):
    source_hash.cache_clear()
    return source_hash(target)


@pytest.mark.parametrize("module", ["method", "relative"])
def test_a_change_in_what_it_imports_from_its_package_changes_the_hash(package, module):
    before = digest(f"examplepkg.{module}:A")
    (package / "unused.py").write_text("Y = 2\n")
    assert digest(f"examplepkg.{module}:A") == before
    (package / "helper.py").write_text("X = 2\n")
    assert digest(f"examplepkg.{module}:A") != before


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
    plain = digest("examplepkg.method:A")
    (other / "base.py").write_text("X = 2\n")
    assert digest("examplepkg.method:A") == plain, "a library's code is covered, whose version is recorded instead"
    monkeypatch.setattr("harness.source._plugin_rooms", lambda: frozenset({"examplepkgtwo"}))
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


def test_the_built_in_plugins_are_rooms():
    assert {"plugins", "tasks"} <= _plugin_rooms()


def test_errors_name_the_module(package):
    with pytest.raises(PluginError, match=r"examplepkg\.nowhere"):
        digest("examplepkg.nowhere:A")
    (package / "method.py").write_text("def broken(:\n")
    with pytest.raises(PluginError, match="line 1"):
        digest("examplepkg.method:A")
