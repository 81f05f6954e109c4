"""An exported folder on a web server: DuckDB's extension httpfs fetches it into the cache, where it is read.

The names of its files contain their checksums, so files that are in the cache are not fetched again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.results.store import connection
from harness.results.store.published import MANIFEST
from harness.system import cache
from harness.system.errors import DataError
from harness.system.files import MAX_BYTES, holds, listed_digests, parse_json, write_whole

Fetch = Callable[[str, int], bytes]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
MOST_FILES = 10_000
MOST_BYTES = 2**30
"""The largest file that is fetched; a shard has at most 50 MB."""
MOST_IN_ALL = 2**34
"""The largest folder that is fetched; 100,000 attempts with long curves take 10 GB."""


def address(folder: Path | str) -> str:
    """Return the web address that a path is meant to be (paths have no double slashes), or "" if it is none."""
    found = re.fullmatch(r"(https?):/+([^\s?#]+?)/*", str(folder))
    return f"{found[1]}://{found[2]}" if found else ""


def fetched(url: str) -> Path:
    """Return the folder in the cache that has the set at an address, after fetching what it lacks.

    Raises `DataError` if the set is not complete or cannot be reached.
    """
    folder = cache.folder("web") / hashlib.sha256(url.encode()).hexdigest()[:16]
    with _httpfs() as fetch:
        manifest = fetch(f"{url}/{MANIFEST}", MAX_BYTES)
        try:
            listed = listed_digests(parse_json(manifest))
        except ValueError:
            listed = {}
        if not listed or len(listed) > MOST_FILES or not all(_NAME.fullmatch(name) for name in listed):
            raise DataError(f"{url}/{MANIFEST} is not the manifest of an exported folder")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            left = MOST_IN_ALL
            for name, digest in listed.items():
                if not holds(folder / name, digest):
                    content = fetch(f"{url}/{name}", min(MOST_BYTES, left))
                    left -= len(content)
                    if hashlib.sha256(content).hexdigest() != digest:
                        raise DataError(f"{url}/{name} is altered or not complete, by the checksums in {MANIFEST}")
                    write_whole(folder / name, content)
            write_whole(folder / MANIFEST, manifest)
        except OSError as error:
            raise DataError(f"{error.filename or folder} cannot be written: {error.strerror or error}") from error
    return folder


@contextmanager
def _httpfs() -> Iterator[Fetch]:
    """Yield a function that returns the content at an address; it raises `DataError` beyond a given size."""
    import duckdb

    with connection.fetching() as db:

        def fetch(url: str, most: int) -> bytes:
            try:
                ((size,),) = db.execute("select size from read_blob([?])", [url]).fetchall()
                if size > most:
                    raise DataError(f"{url} has {size:,} bytes, at most {most:,} are read")
                ((content,),) = db.execute("select content from read_blob([?])", [url]).fetchall()
            except (duckdb.Error, ValueError) as error:
                raise DataError(f"{url} cannot be read: {str(error).splitlines()[0]}") from error
            return bytes(content)

        yield fetch
