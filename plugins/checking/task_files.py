"""The law for the bytes that a task reads: with other bytes its runs have other keys."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from harness.contracts import check, data, schema
from harness.runs import undeclared
from harness.system import write_whole
from harness.tasks import Task
from plugins.checking.law import built


def law_bytes_are_in_the_key(task: Task) -> None:
    """The run key depends on every file that the task reads: declared data, and files that settings name.

    A file that it opens and does not declare is a failure. It is seen only if it is read after this process began to
    look, so `bench check` begins before it loads plugins.
    """
    undeclared.watch()
    undeclared.forget()
    task = replace(task)  # it may read files when it is made
    problem = built(task, 1)
    batches = problem.draw_batches(1)
    problem.gradient(problem.initial(), {name: leaf[0] for name, leaf in batches.items()} or None)
    problem.energy(problem.initial(), None)
    kind = type(task)
    files = {f: str(getattr(task, f.name)) for f in schema(kind) if f.type == "file" and getattr(task, f.name)}
    identified = [check(field, path, kind.__name__) for field, path in files.items()]
    read = undeclared.found([f"{kind.__module__}:{kind.__qualname__}"], task.datasets, identified)
    assert not read, (
        f"it reads {read[0]}, and a change of that file changes no run key; usual causes: a path that is text and not "
        "param(kind='file'), a file that is neither in `datasets` nor in `__files__`"
    )
    for field, path in files.items():
        with tempfile.TemporaryDirectory() as folder:
            other = Path(folder, "other")
            write_whole(other, Path(path).read_bytes() + b"\n", sync=False)
            same = check(field, str(other), kind.__name__) == check(field, path, kind.__name__)
        assert not same, f"another content of the file of {field.name} leaves the run key as it is"
    for file in task.datasets:
        others = [replace(f, sha256=f.sha256[::-1]) if f is file else f for f in task.datasets]
        same = data.checksum(others) == data.checksum(task.datasets)
        assert not same, f"another content of {file.path} leaves the run key as it is"
