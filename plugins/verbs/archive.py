"""`bench archive`: results with code, environments and a citation, as one file."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from harness import Bench, DataError, Published, Result, Store, UsageError
from harness.results.ledger.attempt import checksum
from harness.results.store.published import MANIFEST
from harness.runs.parcel import packed
from harness.system.files import write_whole
from harness.system.text import is_text
from plugins.verbs.upkeep.export import export

README = """# {title}

{runs} runs of stochastic-gradient MCMC samplers, made with sgmcmc-bench {bench}.

| path | what it is |
|---|---|
| `results/` | the results as Parquet files, with the records of the runs, the code of samplers, schedules and tasks
(`source-HASH.json`), and `manifest.json` with the SHA-256 of each file |
| `environments.json` | each machine and its installed packages, by the id that attempts have in `environment` |
| `CITATION.cff` | how to cite this |

To read it:

    pip install sgmcmc-bench=={bench}
    tar xf {file}
    bench --results {folder}/results ls runs
    bench --results {folder}/results report leaderboard

or in Python `harness.load("{folder}/results")`, or without sgmcmc-bench any program that reads Parquet:
`select * from 'results/metric-*.parquet'` in DuckDB. Draws are not in this file. Reading it executes nothing in it.
""".replace("tasks\n(`", "tasks (`")
CITATION = """cff-version: 1.2.0
message: If you use these results, please cite them.
type: dataset
title: {title}
authors:
{authors}
version: "{version}"
references:
  - type: software
    title: sgmcmc-bench
    version: "{bench}"
    authors:
      - name: The sgmcmc-bench developers
"""


def archive(
    bench: Bench,
    out: Annotated[Path, typer.Option("--out", help="The file, NAME.tar; an existing one is replaced.")],
    author: Annotated[list[str], typer.Option("--author", help="An author; repeat it for several.")],
    title: Annotated[str, typer.Option("--title", help="Title of the data set.")] = "Results of sgmcmc-bench",
) -> Result:
    """Write the finished runs of this results folder (--results) as one file that can be cited, as on Zenodo.

    It contains the files of `bench export`, the environments, a README and CITATION.cff. The same results, authors and
    title give the same bytes. The file is read back before the command ends.

    Examples:
        bench archive --out results.tar --author "Ada Lovelace"
        bench archive --out results.tar --author "Ada Lovelace" --title "Our samplers"
    """
    if not re.fullmatch(r"[A-Za-z0-9_][\w.+-]*\.tar", out.name, re.ASCII):
        raise UsageError(f"--out {out}: the name must be of letters, digits, '.', '_', '+' and '-', and end in .tar")
    if not all(text.strip() and is_text(text) for text in (title, *author)):
        raise UsageError("--author and --title need text")
    store, written = bench.store(), hashlib.sha256()
    with tempfile.TemporaryDirectory() as place:
        results, authors = Path(place) / "results", [" ".join(name.split()) for name in author]
        files = _files(store, results, out, authors, " ".join(title.split()))
        try:
            write_whole(out, _with_checksum(written, packed(files)))
            digest = checksum(out)
        except OSError as error:
            raise DataError(f"{out} cannot be written: {error.strerror or error}; choose another --out") from error
    if digest != written.hexdigest():
        raise DataError(f"{out} is not what was written; check the disk, and repeat the command")
    return Result(notes=[f"wrote {out}: {out.stat().st_size / 1e6:,.1f} MB, SHA-256 {digest}"], changed=True)


def _with_checksum(total: Any, blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the blocks, and add each one to a checksum."""
    for block in blocks:
        total.update(block)
        yield block


def _files(store: Store, results: Path, out: Path, authors: Sequence[str], title: str) -> Mapping[str, bytes | Path]:
    """Export the results, read them as a store, and return the files of the archive by name, in order.

    Raise `DataError` if there is no finished run.
    """
    export(store, results)
    exported = Published(results)
    (counted,) = exported.rows("select count(*) as runs from run_status")
    rows = exported.rows("select environment, document from environment order by environment")
    members = {f"results/{path.name}": path for path in sorted(results.iterdir())}
    if not counted["runs"]:
        raise DataError(f"{store.results} has no finished run; `bench run` makes some")
    known = {"title": title, "bench": version("sgmcmc-bench"), "runs": counted["runs"]}
    quoted = {**known, "title": json.dumps(title, ensure_ascii=False)}
    names = "\n".join(f"  - name: {json.dumps(name, ensure_ascii=False)}" for name in authors)
    about = checksum(results / MANIFEST)[:12]
    texts = {
        "CITATION.cff": CITATION.format(**quoted, authors=names, version=about),
        "README.md": README.format(**known, file=out.name, folder=out.stem),
        "environments.json": json.dumps({row["environment"]: json.loads(row["document"]) for row in rows}, indent=1),
    }
    whole: dict[str, bytes | Path] = {name: text.encode() for name, text in texts.items()}
    return {f"{out.stem}/{name}": content for name, content in {**whole, **members}.items()}
