"""The source of plugins that are broken in every way: how they import, what their hooks return, their classes."""

from hypothesis import strategies as st

HEAD = """
from __future__ import annotations
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar
from harness import Info, Method, Sampler, Schedule, hook, param
from harness.reports import Report
from harness.tasks import Metric, Outcome, Protocol, Task

class Base(BaseException): ...
class Mute(Exception):
    def __str__(self): raise ValueError('no words')
    __repr__ = __str__
class Lying(Info):
    def __getattribute__(self, name): raise Base(name)
class Text(str):
    def __str__(self): raise Base()
    __repr__ = __format__ = __str__
class Deep:
    def __getattr__(self, name): return getattr(self, name + 'x')
class Endless(list):
    def __iter__(self): return iter([Info('x', 'm:A')] * 3)
def recursing(): return recursing()
"""
AT_IMPORT = (
    "", "raise Exception('\\x1b[31m<b>' * 5000)", "raise Base('gone')", "raise Mute()", "sys.exit(7)", "exit(0)",
    "raise GeneratorExit", "raise StopIteration", "recursing()", "raise SystemExit('\\udcff')", "import nosuch",
    "1 / 0", "raise ExceptionGroup('g', [ValueError()])", "from harness import nosuch", "print('hello')", "x = [",
    "def __getattr__(name): raise AttributeError(name + __getattr__(name))", "del hook",
    "raise UnicodeDecodeError('a', b'', 0, 1, '')", "sys.stdout.write('{}')", "raise OSError(2, 'gone', '/x')",
    "assert False", "raise MemoryError", "raise BrokenPipeError", "def __dir__(): raise Base()", "__name__ = 5",
    "__spec__ = None", "__all__ = 3", "raise NotImplementedError", "raise EOFError",
)  # fmt: skip
RETURNED = (
    "None", "5", "'sgld'", "()", "{}", "[]", "[5]", "[None]", "[Info]", "Info('a', 'm:A')", "[Info('a')]", "iter([])",
    "Deep()", "[Deep()]", "[Lying('a', 'm:A')]", "Endless()", "[[Info('a', 'm:A')]]", "recursing()", "sys.exit(3)",
    "Mute()", "[Mute()]", "[Info(5, 'm:A')]", "[Info(None, None, None)]", "[Info(Text('a'), Text('m:A'), Text('s'))]",
    "[Info('a', 5)]", "[Info('a', 'm:A', 5)]", "[Info('a', 'm:A', ['x'])]", "[Info('a', 'm')]", "[Info('a', '..:A')]",
    "[Info('a', 'm:')]", "[Info('a', ':A')]", "[Info('a', '')]", "[Info('a', 'm:A:B')]", "[Info('a', 'os:system')]",
    "[Info('a', 'nosuch.module:A')]", "[Info('a', 'harness:Sampler')]", "[Info('a', 'builtins:int')]",
    "[Info('a', '/etc/passwd:A')]", "[Info('a', '../x:A')]", "[Info('a', 'm\\n:A')]",
    "[Method('a', 'sgld', 'cyclical')]", "[Method('a', 5, 'cyclical')]", "[Method('a', 'nosuch', 'nosuch')]",
    "[Method('a', 'sgld', 'cyclical', settings=5)]", "[Method('a', 'sgld', 'cyclical', settings={5: 6})]",
    "[Method('a', 'sgld', 'cyclical', settings={'schedule.beta': Deep()})]",
    "[Method('a', 'sgld', 'cyclical', settings={'x.y': 1})]", "[Method('a', 'a', 'a')]", "[Path('/nowhere.toml')]",
    "[Path('/')]", "[Path('/dev/zero')]", "['/x.toml']", "[Path('a\\0b')]", "[Path('x' * 10000)]",
    "[Info('sgld', 'plugins.samplers.sgld:SGLD')]", "[Info('mixture5', 'm:A')]",
)  # fmt: skip
HOOKS = ("samplers", "schedules", "methods", "tasks", "reports", "papers", "suites")
MADE = "@dataclass(frozen=True, kw_only=True)\nclass A({base}):\n    {body}\n"
FIELDS = (
    "a: float = param(-1.0, '(0, inf)')", "a: float = param(1.0, '0..1')", "a: str = param('x', '[0, 1]')",
    "a: float = param(float('nan'))", "a: Any = param(Deep())", "a: nosuch = param(1.0)",
    "a: float = param(1.0, choices=(1, 2))", "a: int = field(default_factory=recursing)",
    "def __post_init__(self): sys.exit(3)", "def __post_init__(self): raise Mute()",
    "def __getattr__(self, name): return getattr(self, name)",
)  # fmt: skip
OF_SAMPLERS = (
    "gradients_per_step: ClassVar = 'two'", "gradients_per_step: ClassVar = 0", "gradients_per_step: ClassVar = -1",
    "full_gradients_per_step: ClassVar = None", "needs: ClassVar = 5", "needs: ClassVar = {Deep()}",
    "settings = classmethod(lambda cls, task: 5)", "settings = classmethod(lambda cls, task: recursing())",
    "settings = classmethod(lambda cls, task: {'x': Deep()})", "settings = classmethod(lambda cls, task: {5: 5})",
)  # fmt: skip
OF_TASKS = (
    "...", "protocols: ClassVar = ()", "protocols: ClassVar = 5", "protocols: ClassVar = (5,)",
    "datasets: ClassVar = 5", "datasets: ClassVar = ('x',)", "dim = lambda self: 2", "dim = lambda self: 'two'",
    "dim = recursing", "version: ClassVar = None", "dtype: ClassVar = 'float128'", "terms = lambda self: 0",
    "batch_terms = lambda self: 99", "provides: ClassVar = 5", "metrics: ClassVar = 5", "metrics: ClassVar = (5,)",
    "max_block = lambda self, device: 0",
)  # fmt: skip
PROTOCOLS = (
    "'p', '', {'paper': 5}", "'../x', '', {'paper': 5}", "'p', '', {}", "'p', '', {'paper': -1}", "'p', '', {'=': 5}",
    "'p', '', {'paper': 'many'}", "5, 5, 5", "'p', '', {'paper': 5}, seeds=()", "'p', '', {'paper': 5}, seeds=('x',)",
    "'p', '', {'paper': 5}, chains=0", "'p', '', {'paper': 5}, burn_in=2", "'p', '', {'paper': 5}, thin=0",
    "'p', '', {'paper': float('nan')}", "'p', '', {'paper': 5}, settings={'x': Deep()}",
    "'\\x1b[31m', '', {'paper': 5}",
)  # fmt: skip
ONE = f"protocols: ClassVar = (Protocol({PROTOCOLS[0]}),)"
METRICS = (
    "'x', 'max', '1', ''", "'x', 'sideways', '1', ''", "'', 'max', '1', ''", "'x', 'max', '1', '', version='a'",
    "'\\x1b[31m', 'max', '1', ''", "'x' * 10000, 'max', '1', ''",
)  # fmt: skip
CLASSES = (
    "class A: ...\n",
    "A = 5\n",
    "def A(**_): raise Base()\n",
    "class A(Report):\n    def build(self, store, request): raise Base()\n",
    "class A(Report): ...\n",
    "class A(Report):\n    def __init__(self): raise Mute()\n",
    *(MADE.format(base=base, body=body) for base in ("Sampler", "Schedule", "Task") for body in FIELDS),
    *(MADE.format(base="Sampler", body=body) for body in OF_SAMPLERS),
    *(MADE.format(base="Task", body=body) for body in OF_TASKS),
    *(MADE.format(base="Task", body=f"protocols: ClassVar = (Protocol({text}),)") for text in PROTOCOLS),
    *(MADE.format(base="Task", body=f"metrics: ClassVar = (Metric({text}),)\n    {ONE}") for text in METRICS),
)
MISSPELT = ("", "@hook\ndef bench_sampler(): return []\n", "@hook\ndef bench_tasks(x): return x\n")
INFOS = ("samplers", "schedules", "tasks", "reports")


@st.composite
def modules(draw, name):
    """The source of a plugin module, broken in one to three places; {name} stands for its own name."""
    body, tail = "", ""
    kind = draw(st.sampled_from(("import", "hook", "class", "class", "all", "clash")))
    if kind in {"import", "all"}:
        body += draw(st.sampled_from(AT_IMPORT)) + "\n"
    if kind in {"hook", "all"}:
        for hook in draw(st.lists(st.sampled_from(HOOKS), min_size=1, max_size=3, unique=True)):
            tail += f"@hook\ndef bench_{hook}():\n    return {draw(st.sampled_from(RETURNED))}\n"
    if kind in {"class", "all"}:
        body += draw(st.sampled_from(CLASSES))
        for hook in draw(st.lists(st.sampled_from(INFOS), min_size=1, max_size=2, unique=True)):
            if f"bench_{hook}(" not in tail:
                tail += f"@hook\ndef bench_{hook}():\n    return [Info('{name}', '{name}:A', 'what it does')]\n"
    if kind == "clash":
        tail += "@hook\ndef bench_samplers():\n    return [Info('twin', 'm:A')]\n"
        tail += draw(st.sampled_from(MISSPELT))
    return HEAD + body + tail


METADATA = (
    "Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", "", "\x00", "Name: {name}\n", "Version: 1\n",
    "Name: \x1b[31m\nVersion: <b>\n",
    "Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nRequires-Dist: ((( nonsense\nRequires-Dist: nosuch>=1; extra\n",
)  # fmt: skip
ENTRIES = (
    "[bench]\n{name} = {name}\n", "[bench]\n{name} = {name}\n", "[bench]\n{name} = {name}\n", "[bench]\n",
    "[bench]\nx = \n", "[bench]\n= {name}\n", "[bench]\n{name} = {name}:nosuch\n", "[bench]\n{name} = a b c\n",
    "[bench]\n{name} = ..\n", "[bench]\n\x1b[31m = {name}\n", "garbage\n",
    "[bench]\n{name} = {name}\n{name} = {name}\n", "[bench]\n{name} = os\n", "[bench]\n{name} = tasks.nosuch\n",
    "[bench]\n{name} = {name} [x]\n",
)  # fmt: skip
