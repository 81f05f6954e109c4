"""What is declared once: statuses by name, results as records, no list of their fields anywhere else."""

import ast
import json
import re
from dataclasses import dataclass, fields
from pathlib import Path
from types import SimpleNamespace

import harness
from harness.contracts.task import Metric
from harness.results.records import AttemptResult, Status, ValueRow, columns_of
from harness.runs.session import metric_values
from harness.system.columns import document, row

ROOT = Path(harness.__file__).parents[1]
COMMON = {Status.NEW, Status.ERROR, Status.TIMEOUT, Status.RUNNING, Status.DAMAGED}
"""Words that mean something else elsewhere."""
IN_SQL = re.compile(rf"'({'|'.join(Status)})'")


def literals(tree):
    """The texts of a module but for docstrings and the keys of what is written or shown; of status words those that
    are common are taken where they are compared with a status.
    """
    passed = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    passed |= {id(key) for node in ast.walk(tree) if isinstance(node, ast.Dict) for key in node.keys}
    compared = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare) and re.search(r"\bstatus", ast.unparse(node))
        for part in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in passed:
            yield node.lineno, node.value, id(node) in compared


def test_statuses_are_declared_once():
    stray = [
        f"{path.relative_to(ROOT)}:{line}: {text!r:.60}"
        for package in ("harness", "plugins", "reports", "tasks")
        for path in sorted((ROOT / package).rglob("*.py"))
        if path.name != "records.py"
        for line, text, compared in literals(ast.parse(path.read_bytes()))
        if (text in {*Status} and (compared or text not in COMMON)) or IN_SQL.search(text)
    ]
    assert not stray


def test_a_result_reads_back_as_it_was_written():
    value = ValueRow(name="m", unit="1", direction="target", summary="not kept", target=1.0, value=0.5, is_primary=True)
    numbers = {f.name: 3 for f in fields(AttemptResult) if "int" in str(f.type)}
    seconds = {f.name: 1.5 for f in fields(AttemptResult) if "float" in str(f.type)}
    result = AttemptResult(attempt="a", run_key="k", status=Status.DONE, metrics=(value,), **numbers, **seconds)
    record = json.loads(json.dumps(document(result)))
    assert record["seconds"].keys() == {"sampling", "observing", "checkpoint", "setup"}
    table = columns_of("attempt")
    given = {"concluded": True, "environment": None, "path": "", "code": {}, "copied": None}
    columns = row(table, record, "result.json", **given)
    assert columns == {name: getattr(result, name) for name in table} | {"code": "{}"}
    (metric,) = record["metrics"]
    assert ValueRow(summary="not kept", **row(columns_of("metric"), metric, "metric", attempt="")) == value


@dataclass(frozen=True)
class OfAStranger(Metric):
    more: int = 3


def test_a_metric_of_a_subclass_is_kept_by_the_fields_of_a_metric():
    task = SimpleNamespace(metrics=[OfAStranger("m", "max", "1", "what it is"), Metric("n", "min", "1", "")])
    first, second = metric_values(task, {"m": 0.5, "n": float("inf")})
    assert document(first) == {
        "name": "m", "direction": "max", "unit": "1", "version": 1, "target": None, "value": 0.5, "primary": True,
    }  # fmt: skip
    assert (second.value, second.is_primary) == (None, False)
