from __future__ import annotations

import sys

import pytest

from harness.errors import PluginError
from harness.source import source_hash


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
    assert digest("examplepkg.method:A")
    assert "examplepkg.method" not in sys.modules


def test_errors_name_the_module(package):
    with pytest.raises(PluginError, match=r"examplepkg\.nowhere"):
        digest("examplepkg.nowhere:A")
    (package / "method.py").write_text("def broken(:\n")
    with pytest.raises(PluginError, match="line 1"):
        digest("examplepkg.method:A")
