"""The reference pages, from the source code: the public names of `harness`, and the commands."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.cli
import typer.main

import harness
from harness.cli.app import app

PAGES = {
    "plugins.md": (
        "Python: plugins",
        "What samplers, schedules, tasks and their observers are made of.",
        ("contracts",),
    ),
    "results.md": (
        "Python: runs, results and reports",
        "The application, reading results, scoring them, and writing reports.",
        ("application", "reporting", "results", "runs", "system", "cli"),
    ),
    "diagnostics.md": (
        "Python: diagnostics and statistics",
        "Pure functions on arrays, and the exact stationary law of a linear step.",
        ("analysis", "engine"),
    ),
}
EXAMPLES = re.compile(r"\x08\nExamples:\n((?: +.*\n)+)")
"""The examples of a command, with the mark by which click leaves their lines as they are."""
IMPORT = (
    "`from harness import NAME` imports a name of this page, or `from harness.tasks` one for authors of tasks, "
    "`from harness.reports` one for authors of reports."
)
Code = ast.ClassDef | ast.FunctionDef
Named = Code | ast.Assign | ast.AnnAssign


def pages() -> dict[str, str]:
    """All pages by file name. `SystemExit` for a name or command without a description."""
    names = {str(n.asname or n.name): str(i.module) for i in stubs() for n in i.names if i.module != "harness"}
    texts = {file: f"# {title}\n\n{what} {IMPORT}\n\n" for file, (title, what, _) in PAGES.items()}
    for name, home in names.items():
        (file,) = [file for file, (_, _, parts) in PAGES.items() if home.split(".")[1] in parts]
        texts[file] += "\n".join(described(name, home)) + "\n"
    return {**texts, "commands.md": commands()}


def stubs() -> list[ast.ImportFrom]:
    """The imports of the lists of public names: those of `harness`, of its tasks and of its reports."""
    paths = [Path(harness.__file__).with_name(f"{name}.pyi") for name in ("__init__", "tasks", "reports")]
    return [node for path in paths for node in parsed(path).body if isinstance(node, ast.ImportFrom)]


def parsed(path: Path) -> ast.Module:
    """A module's syntax tree."""
    return ast.parse(path.read_text(encoding="utf-8"))


def source(module: str) -> Path:
    """A module's file; `ModuleNotFoundError` where there is none."""
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.origin:
        raise ModuleNotFoundError(module)
    return Path(spec.origin)


def described(name: str, home: str) -> Iterator[str]:
    """The section of a public name, which is defined in a module or imported there, or is a module itself."""
    tree = parsed(source(home))
    for i, node in reversed([*enumerate(tree.body)]):  # the last definition of an overloaded function is documented
        if isinstance(node, Named) and name in bound(node):
            yield from section(node, name, [], following(tree.body, i))
            return
        if isinstance(node, ast.ImportFrom) and name in {n.asname or n.name for n in node.names}:
            yield from described(name, str(node.module))
            return
    path = source(f"{home}.{name}")
    tree, names = parsed(path), path.with_suffix(".pyi")
    yield f"## {name}\n\n*module* `harness.{name}`\n\n{markdown(documented(tree, name))}\n"
    yield from contents(parsed(names) if names.exists() else tree, f"{home}.{name}", name)


def contents(tree: ast.Module, module: str, prefix: str) -> Iterator[str]:
    """The public functions and classes of a module, and those that a package imports from its own modules."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(module):
            wanted = {n.name for n in node.names}
            inner = parsed(source(str(node.module))).body
        else:
            wanted, inner = set(), [node]
        for part in inner:
            if isinstance(part, Code) and (part.name in wanted or (not wanted and not part.name.startswith("_"))):
                yield from section(part, part.name, [prefix], "")


def bound(node: Named) -> list[str]:
    """The names that a statement defines."""
    if isinstance(node, Code):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def following(body: list[ast.stmt], i: int) -> str:
    """The string literal after a statement, which documents a constant."""
    after = body[i + 1] if i + 1 < len(body) else None
    text = after.value if isinstance(after, ast.Expr) else None
    return text.value if isinstance(text, ast.Constant) and isinstance(text.value, str) else ""


def section(node: Named, name: str, inside: list[str], after: str) -> Iterator[str]:
    """A heading, the declaration, the docstring, and the documented public methods of a class."""
    full = ".".join([*inside, name])
    yield f"{'#' * (2 + len(inside))} {full}\n\n```python\n{declaration(node)}\n```\n"
    yield (markdown(documented(node, full) if isinstance(node, Code) else described_by(after, full)) + "\n")
    for method in node.body if isinstance(node, ast.ClassDef) else ():
        if isinstance(method, ast.FunctionDef) and not method.name.startswith("_") and ast.get_docstring(method):
            yield from section(method, method.name, [*inside, name], "")


def declaration(node: Named) -> str:
    """The source of a definition without its body; of a class, with its public fields."""
    if isinstance(node, ast.FunctionDef):
        decorators = "".join(f"@{ast.unparse(d)}\n" for d in node.decorator_list)
        returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        return f"{decorators}def {node.name}({ast.unparse(node.args)}){returns}"
    if not isinstance(node, ast.ClassDef):
        text = ast.unparse(node)
        return text if len(text) < 300 else f"{text[:300].rsplit(' ', 1)[0]} ..."
    fields = [f for f in node.body if isinstance(f, ast.AnnAssign) and not ast.unparse(f.target).startswith("_")]
    bases = f"({', '.join(map(ast.unparse, node.bases))})" if node.bases else ""
    return "\n    ".join([f"class {node.name}{bases}" + ":" * bool(fields), *map(ast.unparse, fields)])


def documented(node: ast.Module | ast.ClassDef | ast.FunctionDef, name: str) -> str:
    """The docstring; `SystemExit` without one."""
    return described_by(ast.get_docstring(node) or "", name)


def described_by(text: str, name: str) -> str:
    """The text; `SystemExit` if it is empty."""
    if not text.strip():
        raise SystemExit(f"harness.{name} has no description: write its docstring")
    return inspect.cleandoc(text)


def markdown(text: str) -> str:
    """A docstring as Markdown: columns and indented lines stay as they are."""
    return "\n\n".join(map(paragraph, text.split("\n\n")))


def paragraph(text: str) -> str:
    """One paragraph of a docstring."""
    if re.search(r"\S {2,}\S|\n +\S", text) or text.startswith("    "):
        return f"```text\n{inspect.cleandoc(text)}\n```"
    parts = text.split("`")
    parts[::2] = [re.sub(r"([*\[\]_])", r"\\\1", part).replace("<", "&lt;") for part in parts[::2]]
    return "`".join(parts)


def verbs() -> list[str]:
    """The commands, those of plugins included."""
    group: Any = typer.main.get_command(app)
    return group.list_commands(typer.Context(group, info_name="bench"))


def commands() -> str:
    """A section for each command, with the text of its `--help`; `SystemExit` for one without a description."""
    group: Any = typer.main.get_command(app)
    context = typer.Context(group, info_name="bench")
    texts = [
        "# Command line\n",
        typer.cli.get_docs_for_click(obj=group, ctx=context, name="bench").split("**Commands**")[0],
    ]
    texts[1] = texts[1].split("\n", 1)[1]
    for name in verbs():
        command = group.resolve_command(context, [name])[1]
        if not (command.help or "").strip():
            raise SystemExit(f"bench {name} has no description: write its docstring")
        texts.append(typer.cli.get_docs_for_click(obj=command, ctx=context, indent=1, name=f"bench {name}"))
    return EXAMPLES.sub(lambda match: f"**Examples**:\n\n```sh\n{inspect.cleandoc(match[1])}\n```\n", "\n".join(texts))
