"""A class of a script or a notebook as a plugin file: the text that workers import, and what cannot be one."""

import importlib.util
import linecache
import sys
import types

import pytest

from harness import UsageError
from plugins.scaffold import definitions

CLASS = """
@dataclass(frozen=True, kw_only=True)
class Mine(Sampler):
    {member}

    def init(self, theta, potential, h, T, noise):
        return {{}}

    def step(self, theta, state, potential, h, T, noise):
        return {step}, {{}}
"""
IMPORTS = "from dataclasses import dataclass\nfrom harness import Sampler\n"


@pytest.fixture
def defined(monkeypatch):
    """Define a class as a cell of a notebook does, in the module `__main__`, and return it."""
    cells = []

    def define(before="", member="pass", step="theta", head=""):
        name = f"<cell {len(cells)} of {id(cells)}>"
        text = f"{head}{IMPORTS}{before}{CLASS.format(member=member, step=step)}"
        cells.append(name)
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        main = types.ModuleType("__main__")
        monkeypatch.setitem(sys.modules, "__main__", main)
        exec(compile(text, name, "exec", dont_inherit=True), vars(main))  # noqa: S102 - as a notebook does
        return vars(main)["Mine"]

    yield define
    for name in cells:
        del linecache.cache[name]


def imported(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def text_of(cls):
    parts = definitions.Parts()
    parts.add(cls.__name__, cls)
    return parts.text


@pytest.mark.parametrize(
    ("before", "member", "step", "kept"),
    [
        ("import math\n", "pass", "theta * math.pi", "import math\n"),
        ("import torch.nn.functional as F\n", "pass", "F.relu(theta)", "import torch.nn.functional as F\n"),
        ("from math import sqrt as root\n", "pass", "root(theta)", "from math import sqrt as root\n"),
        ("from typing import ClassVar\n", "size: ClassVar = 3", "theta", "from typing import ClassVar\n"),
        ("K = {'a': [1, 2.5, None]}\n", "pass", "theta * K['a'][0]", "K = {'a': [1, 2.5, None]}\n"),
        ("def f(x):\n    return g(x)\ndef g(x):\n    return x\n", "pass", "f(theta)", "def g(x):\n    return x"),
        ("class Base:\n    def shared(self):\n        return 1\n", "other = Base", "theta", "class Base:\n"),
        (
            "from plugins.samplers.sgld import SGLD\n",
            "base = SGLD",
            "theta",
            "from plugins.samplers.sgld import SGLD\n",
        ),
    ],
)
def test_what_the_class_uses_is_in_its_file(tmp_path, defined, before, member, step, kept):
    cls = defined(before, member, step)
    path, name = definitions.keep(cls, "samplers", tmp_path)
    assert name == f"{path.stem}:mine"
    assert kept in path.read_text()
    module = imported(path)
    assert [info.name for info in module.bench_samplers()] == ["mine"]
    assert module.Mine.__name__ == "Mine"


def test_the_same_definition_has_the_same_file_and_another_one_has_another(tmp_path, defined):
    first, _ = definitions.keep(defined("K = 1\n", step="theta * K"), "samplers", tmp_path)
    again, _ = definitions.keep(defined("UNUSED = 7\nK = 1\n", step="theta * K"), "samplers", tmp_path)
    other, _ = definitions.keep(defined("K = 2\n", step="theta * K"), "samplers", tmp_path)
    assert first == again != other


def test_annotations_that_were_texts_stay_texts(defined):
    text = text_of(defined(head="from __future__ import annotations\n", member="other: NotThere = None"))
    assert text.startswith("from __future__ import annotations\n")


@pytest.mark.parametrize(
    ("before", "words"),
    [
        ("import numpy\nK = numpy.ones(3)\n", "the class uses K, a live ndarray that is no literal"),
        ("from functools import partial\nK = partial(int)\n", "the class uses K, a live partial"),
        ("K = lambda x: x\n", "is not defined at the top level as K"),
        ("def out():\n    def K(x):\n        return x\n    return K\nK = out()\n", "is not defined at the top level"),
    ],
)
def test_what_no_text_can_hold_is_refused_and_named(tmp_path, defined, before, words):
    with pytest.raises(UsageError, match=words) as error:
        definitions.keep(defined(before, step="theta, K"), "samplers", tmp_path)
    assert "Bench(plugins=['FILE.py'])" in str(error.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "step",
    ["[theta for theta in [theta]][0]", "(lambda K: K)(theta)", "sum(K for K in [theta])", "{K: K for K in [theta]}"],
)
def test_a_name_of_the_script_that_the_class_binds_itself_is_not_what_it_uses(defined, step):
    text = text_of(defined("import numpy\nK = theta = potential = numpy.ones(3)\n", step=step))
    assert "numpy" not in text


def test_a_class_whose_source_is_gone_is_refused(defined):
    cls = defined()
    linecache.cache[cls.step.__code__.co_filename] = (0, None, [], "")
    with pytest.raises(UsageError, match="the source of Mine cannot be found"):
        text_of(cls)


def test_a_module_beside_the_script_is_refused_and_its_functions_are_copied(tmp_path, defined, monkeypatch):
    (tmp_path / "my_helper.py").write_text("A = 2\ndef double(x):\n    return A * x\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError, match="my_helper is the module my_helper, which no worker has"):
        text_of(defined("import my_helper\n", step="my_helper.double(theta)"))
    text = text_of(defined("from my_helper import double\n", step="double(theta)"))
    assert "A = 2\n" in text
    assert "def double(x):\n    return A * x" in text
