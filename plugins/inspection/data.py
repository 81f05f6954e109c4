"""`bench data`: list, fetch and verify the data sets that tasks read."""

from __future__ import annotations

import hashlib
import io
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from harness import Bench, BenchError, DataError, Result, options
from harness.contracts import check_known
from harness.contracts import data as files
from harness.reporting import table
from harness.runs import plugin_metadata
from harness.system import sweep, write_whole
from harness.tasks import DataFile

app = typer.Typer(
    help="List, fetch and verify the data sets that tasks read.\n\n"
    "Examples:\n    bench data ls\n    bench data fetch mnist blr-heart\n",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

COLUMNS = ["dataset", "status", "path", "bytes", "tasks"]
Names = Annotated[
    list[str] | None, typer.Argument(help="Data sets or tasks; default: all.", autocompletion=options.TASKS)
]


@app.command("ls")
def ls(bench: Bench) -> Result:
    """List the files of all data sets. Their sizes are checked, their contents are not.

    Examples:
        bench data ls
        bench data ls --json
    """
    return _result([_row(file, tasks, _presence(file)) for file, tasks in _declared(bench).items()])


@app.command("verify")
def verify(bench: Bench, names: Names = None) -> Result:
    """Check the files by their SHA-256. Exit code 4 if one is missing or altered.

    Examples:
        bench data verify
        bench data verify mnist blr-heart
    """
    rows = [_row(file, tasks, files.problem(file) or "ok") for file, tasks in _chosen(bench, names).items()]
    bad = sum(row["status"] != "ok" for row in rows)
    note = f"{bad} of {len(rows)} files are not as declared; `bench data fetch` downloads them"
    return replace(_result(rows), notes=[note] if bad else [], exit_code=DataError.exit_code if bad else 0)


@app.command("fetch")
def fetch(bench: Bench, names: Names = None) -> Result:
    """Download missing and altered files. Files with the right checksum stay as they are.

    Examples:
        bench data fetch
        bench data fetch mnist blr-heart
    """
    rows = []
    for file, tasks in _chosen(bench, names).items():
        try:
            download(file)
            status = "ok"
        except DataError as error:
            bench.say(str(error))
            status = "not fetched"
        rows.append(_row(file, tasks, status))
    bad = any(row["status"] != "ok" for row in rows)
    return replace(_result(rows), exit_code=DataError.exit_code if bad else 0, changed=True)


def download(file: DataFile) -> Path:
    """Download a file to the data root and check it, unless a good copy is there; return its path.

    Raise `DataError` if no address provides it.
    """
    if files.problem(file) is None:
        return files.data_root() / file.path
    import pooch
    from pooch.downloaders import choose_downloader

    target = files.data_root() / file.path
    failures = []
    for url in file.urls:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            sweep(target)
            pooch.get_logger().info("Downloading data from '%s' to file '%s'.", url, target)
            with tempfile.TemporaryFile(dir=target.parent) as whole:  # unnamed: a killed process leaves no file
                choose_downloader(url)(url, whole, None)
                whole.seek(0)
                if file.archive:
                    for _ in _checked(whole, file.archive):
                        pass
                    whole.seek(0)
                    with tarfile.open(fileobj=whole) as packed, packed.extractfile(file.path) or io.BytesIO() as member:
                        write_whole(target, _checked(member, file.sha256))
                else:
                    write_whole(target, _checked(whole, file.sha256))
        except (OSError, ValueError, KeyError, tarfile.TarError) as error:
            failures.append(f"{url}: {error}")
        else:
            return target
    raise DataError(f"data set {file.dataset}: could not fetch {file.path}: " + "; ".join(failures))


def _checked(stream: IO[bytes], sha256: str) -> Iterator[bytes]:
    """Yield the content of a stream part by part; at its end raise `ValueError` if the SHA-256 is another one."""
    digest = hashlib.sha256()
    while part := stream.read(2**20):
        digest.update(part)
        yield part
    if digest.hexdigest() != sha256:
        raise ValueError(f"the download has the SHA-256 {digest.hexdigest()[:12]}..., not {sha256[:12]}...")


def _declared(bench: Bench) -> dict[DataFile, list[str]]:
    """Return each data file with the tasks that read it. A task that does not load is left out with a note."""
    readers: dict[DataFile, list[str]] = {}
    for offer in bench.registry.offers("tasks"):
        try:
            declared = plugin_metadata.datasets(offer)
        except BenchError as error:
            bench.say(f"note: task {offer.name} is left out: {error}")
            continue
        for file in declared:
            readers.setdefault(file, []).append(offer.name)
    return dict(sorted(readers.items(), key=lambda item: (item[0].dataset, item[0].path)))


def _chosen(bench: Bench, names: list[str] | None) -> dict[DataFile, list[str]]:
    """Return the files of the named data sets, with the tasks that read each. None means all data sets.

    A name that is not a data set is a task, and selects all files that the task may read.
    """
    declared = _declared(bench)
    sets = {file.dataset for file in declared}
    known = sets | {task for tasks in declared.values() for task in tasks}
    wanted = set(check_known("data set", names or [], known, bench.registry.unknown))
    return {
        file: tasks
        for file, tasks in declared.items()
        if not wanted or file.dataset in wanted or set(tasks) & (wanted - sets)
    }


def _presence(file: DataFile) -> str:
    try:
        size = (files.data_root() / file.path).stat().st_size
    except OSError:
        return "missing"
    return "present" if size == file.size else f"size is {size}, not {file.size}"


def _row(file: DataFile, tasks: list[str], status: str) -> dict[str, Any]:
    return {
        "dataset": file.dataset, "path": str(files.data_root() / file.path), "bytes": file.size, "status": status,
        "tasks": ", ".join(tasks), "sha256": file.sha256, "licence": file.licence, "urls": " ".join(file.urls),
    }  # fmt: skip


def _result(rows: list[dict[str, Any]]) -> Result:
    return Result([table(rows, COLUMNS)], rows)
