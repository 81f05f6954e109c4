"""Plugin packages that are broken in any way: a row with the reason each, and everything else works."""

import contextlib
import io
import os
import subprocess
import tempfile
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from fuzz.budget import PROFILE, cases
from fuzz.hostile import control
from fuzz.modules import CLASSES, ENTRIES, HEAD, INFOS, METADATA, modules
from fuzz.running import ends_well
from hypothesis import given
from hypothesis import strategies as st
from support import bench_words, importable

from harness.contracts.offers import entries
from harness.contracts.registry import KINDS, Registry
from harness.runs import plugin_metadata
from harness.runs.settings import find_pair
from harness.system.errors import BenchError
from plugins.inspection import plugins as verb
from plugins.inspection import show

TOGETHER, EXAMPLES = 25, 2
"""Packages beside one another, and how often they are drawn."""
LONGEST = 20_000
"""Characters that are told of a package: of every hook and every offer a message, none of them long."""


def install(folder, name, source, metadata=METADATA[0], entry=ENTRIES[0]):
    """A distribution of one module."""
    (folder / f"{name}.py").write_text(source, errors="surrogateescape")
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(metadata.format(name=name))
    (info / "entry_points.txt").write_text(entry.format(name=name))


def built_in(registry):
    """What the built-in plugins offer."""
    return sorted((o.kind, o.name) for kind in KINDS for o in registry.offers(kind) if o.distribution == "sgmcmc-bench")


def mostly(choices):
    """The first of some choices, more often than not."""
    return st.one_of(st.just(choices[0]), st.just(choices[0]), st.sampled_from(choices))


WELL = built_in(Registry())
packages = st.lists(st.tuples(modules("NAME"), mostly(METADATA), mostly(ENTRIES)), min_size=TOGETHER, max_size=TOGETHER)


@cases(EXAMPLES)
@given(packages)
def test_a_broken_package_is_a_row_and_costs_no_other(drawn):
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        for i, (source, metadata, entry) in enumerate(drawn):
            install(Path(folder), f"broken{i}", source.replace("NAME", f"broken{i}"), metadata, entry)
        with importable(folder):
            registry = Registry()
            rows = verb.listing(registry)
            assert built_in(registry) == WELL
            assert {named.name for named in entries()[0]} <= {row["plugin"] for row in rows}
            for row in rows:
                assert (row["status"] == "ok") == (not row["problems"])
                assert len(row["problems"]) < LONGEST
            use(registry)


QUESTIONS = {
    "samplers": [
        plugin_metadata.fields,
        partial(plugin_metadata.sampler_facts, params={}),
        partial(plugin_metadata.own_settings, task="mixture5"),
    ],
    "schedules": [plugin_metadata.fields, partial(plugin_metadata.schedule_facts, params={})],
    "tasks": [plugin_metadata.fields, plugin_metadata.protocols, partial(plugin_metadata.task_facts, params={})],
    "methods": [],
    "reports": [],
    "verbs": [],
}


def use(registry):
    """Ask everything of everything that is offered: answers, or errors that are meant for people."""
    for kind in KINDS:
        for offer in registry.offers(kind):
            if offer.distribution == "sgmcmc-bench":
                continue
            for question in QUESTIONS[kind]:
                with contextlib.suppress(BenchError):
                    question(offer)
            with contextlib.suppress(BenchError):
                find_pair(registry, offer.name, "mixture5" if kind != "tasks" else offer.name)


def test_every_broken_class_is_asked_for_its_facts(tmp_path):
    """Each as what it is, and as one of the things that it is not; a class without a base as everything."""
    for i, source in enumerate(CLASSES):
        info = f"[Info('broken{i}', 'broken{i}:A', 'what it does')]"
        named = [kind for kind in INFOS if f"class A({kind[:-1].capitalize()})" in source]
        kinds = {*named, INFOS[i % len(INFOS)]} if named and PROFILE == "short" else INFOS
        hooks = "".join(f"@hook\ndef bench_{kind}():\n    return {info}\n" for kind in kinds)
        install(tmp_path, f"broken{i}", HEAD + source + hooks)
    with importable(tmp_path), contextlib.redirect_stderr(io.StringIO()):
        use(Registry())


SAMPLER = """
calls = []
@dataclass(frozen=True, kw_only=True)
class {name}(Sampler):
    def step(self, theta, state, potential, h, T, noise):
        calls.append(len(theta) == 8)  # the chains of mixture5
        if sum(calls) > 25:  # not while it is looked at, but when it runs
            {body}
        return theta - h * potential.grad(theta), state
"""
HARMFUL = {
    "Quits": "sys.exit(5)",
    "Throws": "raise Base('gone')",
    "Silent": "raise Mute()",
    "Odd": "raise OSError('\\udcff' * 2000)",
}


@pytest.fixture
def site(tmp_path):
    """A folder with packages, well and broken, as pip leaves them."""
    folder = tmp_path / "site"
    folder.mkdir()
    offers = ", ".join(f"Info('{name.lower()}', 'harmful:{name}', '\\x1b[31m<b>{name}|')" for name in HARMFUL)
    classes = "".join(SAMPLER.format(name=name, body=body) for name, body in HARMFUL.items())
    install(folder, "harmful", f"{HEAD}{classes}@hook\ndef bench_samplers():\n    return [{offers}]\n", METADATA[-1])
    install(folder, "broken1", HEAD + "sys.exit(3)\n")
    install(folder, "broken2", HEAD + "raise Base('gone')\n")
    install(folder, "broken3", HEAD + "@hook\ndef bench_samplers():\n    return [Info('../\\x1b[31m', 'm:A')]\n")
    install(folder, "broken4", "", METADATA[1], ENTRIES[-1])
    return folder


def test_metadata_that_do_not_read_hide_no_plugin(site):
    (site / "broken5-1.0.dist-info").mkdir()
    (site / "broken5-1.0.dist-info" / "entry_points.txt").write_bytes(b"\xff\xfe[bench]\nx = y\n")
    with importable(site), contextlib.redirect_stderr(io.StringIO()):
        registry = Registry()
    assert built_in(registry) == WELL
    rows = {plugin.name: plugin for plugin in registry.plugins}
    assert "its entry points cannot be read: UnicodeDecodeError" in rows["broken5-1.0.dist-info"].problems[0]
    assert rows["harmful"].offers


def test_as_a_user_meets_them(site, tmp_path):
    """The real command line, with real runs, among broken packages."""
    environment = {**os.environ, "PYTHONPATH": str(site), "BENCH_CACHE": str(tmp_path / "cache")}
    results = tmp_path / "results"
    with importable(site):
        _, _, listed = ends_well(results, "plugins", codes={0})
    for word in ("SystemExit: 3", "Base: gone", "must match", "does not import"):
        assert word in listed
    samplers = ",".join(["sgld", *HARMFUL]).lower()
    asked = ["--sampler", samplers, "--task", "mixture5", "--budget", "steps=50", "--seeds", "0"]
    command = bench_words("--results", str(results), "run", *asked)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert "internal error" not in done.stderr
    assert control(done.stdout + done.stderr) == []
    assert done.returncode == 1
    assert "1 done, 4 error\n" in done.stderr
    _, rows, _ = ends_well(results, "ls", "runs", codes={0})
    assert (rows.count(" done "), rows.count(" error ")) == (1, 4)
    assert "SystemExit: 5" in rows


ODD_NAMES = ("a b.py", "1.py", "x.y.py", "\x1b[31m.py", "json.py", "class.py", "x" * 200 + ".py", "-.py", "\udcff.py")
ODD_CONTENT = (b"\x00", b"\xff\xfe", b"(" * 5000, b"x = " + b"-" * 100_000 + b"1", b"def f(:", b"\t x\n  y")


@pytest.mark.parametrize("name", ODD_NAMES)
def test_files_of_any_name(tmp_path, name):
    file = tmp_path / name
    file.write_text("raise SystemExit(3)\n")
    ends_well(tmp_path / "results", "--plugin", str(file), "ls", "samplers", codes={2, 3})


@pytest.mark.parametrize("content", ODD_CONTENT)
def test_files_of_any_content(tmp_path, content):
    file = tmp_path / "broken_file.py"
    file.write_bytes(content)
    _, _, err = ends_well(tmp_path / "results", "--plugin", str(file), "ls", "samplers", codes={3})
    assert str(file) in err


BODIES = (
    "raise Base('x')",
    "return 5",
    "return Result(records=[5])",
    "return Result(tables=[5])",
    "raise Mute()",
    "sys.exit(1)",
)


@pytest.mark.parametrize("body", BODIES)
def test_reports_that_fail_are_plugin_errors(tmp_path, body):
    file = tmp_path / f"broken_report_{BODIES.index(body)}.py"
    source = f"class R(Report):\n    def build(self, store, request): {body}\n"
    offer = f"@hook\ndef bench_reports(): return [Info('r', '{file.stem}:R')]\n"
    file.write_text(f"{HEAD}from harness import Result\n{source}{offer}")
    form = "table" if "tables" in body else "json"
    words = ["--plugin", str(file), "report", "r", "--format", form]
    _, out, err = ends_well(tmp_path / "results", *words, codes={3})
    assert out == ""
    assert "report r" in err or "the result cannot be shown as" in err


def test_pages_of_classes_that_do_harm_are_shown(site):
    with importable(site), contextlib.redirect_stderr(io.StringIO()):
        registry = Registry()
        for name in HARMFUL:
            assert show._record(SimpleNamespace(registry=registry), "sampler", name.lower())["name"] == name.lower()
