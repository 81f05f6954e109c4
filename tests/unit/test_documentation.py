"""The documentation site: every public name and command has a description, and the gallery is that of its list."""

import ast
import itertools
import re
import sys
from pathlib import Path

import pytest

import harness

SITE = Path(__file__).parents[2] / "docs" / "site"


@pytest.fixture
def script(monkeypatch):
    """Imports a script of docs/site."""
    monkeypatch.syspath_prepend(SITE)
    yield __import__
    for name in ("reference", "gallery"):
        sys.modules.pop(name, None)


@pytest.fixture
def reference(script):
    return script("reference")


def test_every_public_name_and_every_command_has_a_section(reference):
    pages = reference.pages()
    headings = {line for page in pages.values() for line in page.splitlines() if line.startswith("## ")}
    public = {*harness.__all__, *harness.tasks.__all__, *harness.reports.__all__} - {"tasks", "reports"}
    assert {f"## {name}" for name in public} <= headings
    assert {f"## `bench {verb}`" for verb in reference.verbs()} <= headings


def test_the_docstring_of_every_feature_names_its_page():
    root = SITE.parents[1]
    features = [path for path in root.glob("plugins/*/__init__.py") if "bench_verbs" in path.read_text()]
    assert len(features) > 10
    for path in features:
        pages = re.findall(r"docs/[\w-]+\.md", ast.get_docstring(ast.parse(path.read_text())))
        assert pages, path
        assert all((root / page).exists() for page in pages), pages


def test_a_name_without_a_description_is_refused(reference):
    with pytest.raises(SystemExit, match=r"harness\.Bare has no description"):
        list(reference.section(reference.ast.parse("class Bare: pass").body[0], "Bare", [], ""))


def test_a_docstring_keeps_its_columns_and_no_markup_of_its_own(reference):
    assert reference.markdown("U(x) < 1 and a_b * c\n\nsize   N\nfew    rows") == (
        "U(x) &lt; 1 and a\\_b \\* c\n\n```text\nsize   N\nfew    rows\n```"
    )


def test_the_gallery_is_that_of_its_list(script):
    gallery = script("gallery")
    assert (gallery.DOCS / "gallery.md").read_text(encoding="utf-8") == gallery.page()
    drawn = {path.name: path.stat().st_size for path in (gallery.DOCS / "gallery").iterdir()}
    assert drawn.keys() == {figure["file"] for figure in gallery.CONTENTS["figure"]}
    assert max(drawn.values()) < 500_000


def test_every_public_constant_has_a_docstring():
    root = SITE.parents[1]
    stubs = [root / "harness" / name for name in ("__init__.pyi", "tasks.pyi", "reports.pyi")]
    stubs += (root / "harness" / "analysis").glob("*/__init__.pyi")
    offered = [(n.module, n.names[0].name) for stub in stubs for n in ast.parse(stub.read_text()).body]
    public = {(root.joinpath(*module.split(".")).with_suffix(".py"), name) for module, name in offered}
    application = [*(root / "harness" / "application").glob("*.py")]
    documented = {(path, *one) for path in {*application, *(p for p, _ in public)} for one in constants(path)}
    bare = {(path, name) for path, name, text in documented if not text}
    assert not bare & (public | {(path, name) for path, name in bare if path in application and name[0] != "_"})
    assert {name for _, name, text in documented if text} >= {"MINIMUM_SEEDS", "THRESHOLD", "DRAWS", "UNGATED"}


def constants(path):
    """The names that a module assigns, each with whether a docstring follows."""
    body = ast.parse(path.read_text()).body if path.is_file() else []
    for node, after in itertools.pairwise([*body, None]):
        if isinstance(node, ast.Assign | ast.AnnAssign):
            text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                yield from ((e.id, text) for e in getattr(target, "elts", [target]) if isinstance(e, ast.Name))


def headings(page):
    """The anchors of a page: its headings in lower case, without marks, with hyphens for blanks."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title) for title in titles)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in plain}


def test_every_link_into_a_page_names_one_of_its_headings():
    root = Path(__file__).parents[2]
    links = [
        (page, (page.parent / file) if file else page, anchor)
        for page in [*(root / "docs").rglob("*.md"), root / "README.md"]
        for file, anchor in re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", page.read_text(encoding="utf-8"))
    ]
    into_pages = [(page.name, anchor, of) for page, of, anchor in links if of.suffix == ".md" and of.is_file()]
    assert len(into_pages) > 50
    assert [(name, anchor) for name, anchor, of in into_pages if anchor not in headings(of)] == []
