"""A name says what it holds: words that could stand for anything are no names."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
VAGUE = {"found", "lack", "lacking", "made", "own", "place", "stuff", "thing", "things"}


def bound(tree):
    """Yield each name that a module binds, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name, node.lineno


def test_no_name_could_stand_for_anything():
    vague = [
        f"{file.relative_to(ROOT)}:{line}: {name}"
        for folder in ("docs", "harness", "plugins", "reports", "tasks", "tests")
        for file in sorted((ROOT / folder).rglob("*.py"))
        for name, line in bound(ast.parse(file.read_text(encoding="utf-8")))
        if name.strip("_") in VAGUE
    ]
    assert not vague
