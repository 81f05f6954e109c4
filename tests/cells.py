"""The code cells of a notebook as plain Python: `python tests/cells.py NOTEBOOK` prints what each shows, as JSON.

A list with an entry for each cell: its text, and whether it shows a picture; null if it imports a module that is not
installed.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import linecache
import sys
import types
from pathlib import Path


def show(name, source, namespace):
    """Execute a cell, and return its text and whether it shows a picture."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    body = ast.parse(source).body
    last = body.pop().value if isinstance(body[-1], ast.Expr) and not source.rstrip().endswith(";") else None
    value = None
    with contextlib.redirect_stdout(io.StringIO()) as stdout:
        exec(compile(ast.Module(body, []), name, "exec", dont_inherit=True), namespace)  # noqa: S102 - our own notebook
        if last is not None:
            value = eval(compile(ast.Expression(last), name, "eval", dont_inherit=True), namespace)  # noqa: S307
    drawn = [*sys.modules["matplotlib.pyplot"].get_fignums()] if "matplotlib.pyplot" in sys.modules else []
    for number in drawn:
        sys.modules["matplotlib.pyplot"].close(number)
    text = stdout.getvalue() + ("" if value is None else repr(value))
    return {"text": text, "picture": bool(drawn) or hasattr(value, "savefig")}


def main(notebook):
    sys.modules["__main__"] = module = types.ModuleType("__main__")
    shown = []
    for i, cell in enumerate(json.loads(Path(notebook).read_text(encoding="utf-8"))["cells"]):
        if cell["cell_type"] == "code":
            try:
                shown.append(show(f"<cell {i}>", "".join(cell["source"]), vars(module)))
            except ModuleNotFoundError:
                shown.append(None)
    json.dump(shown, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
