"""Results folders of any content, as somebody might send one: verbs end as documented and touch nothing outside."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path

import fabricated
from fuzz.budget import cases
from fuzz.hostile import NUMBERS, WORDS
from fuzz.running import ends_well
from hypothesis import given
from hypothesis import strategies as st

KEY = fabricated.run_key(0)
NAMES = (
    "runs", "runs", "runs", "locks", "nights", "rates", "reports", "trash", ".trash", "ledger.json", "results.duckdb",
    "results.duckdb.wal", "results.settled.json", KEY[:2], KEY, "20260102T030400-000000", "spec.json", "result.json",
    "environment.json", "events.jsonl", "rescored.json", "checkpoint.safetensors", "draws.part", f"{KEY}.lock",
    f"{KEY}.notice", f".ledger.json.{'0' * 16}", ".probe-1", "results.duckdb.damaged-20260102T030405", "\x1b[m",
)  # fmt: skip
DOCUMENTS = st.one_of(
    st.sampled_from((*NUMBERS, *WORDS[:9], None, [], {}, [[]])),
    st.dictionaries(
        st.sampled_from(("layout", "key", "pid", "host", "since", "database", "parts", "status", "steps", "sha256")),
        st.sampled_from((*NUMBERS[:8], None, "x", [], {})),
        max_size=3,
    ),
).map(lambda document: json.dumps(document).encode())


def beside(path):
    """The folder `outside` beside the results folder that a path is in."""
    return next(above for above in path.parents if above.name == "results").parent / "outside"


KINDS = {
    "a folder": lambda path, _: path.mkdir(),
    "a file": lambda path, content: path.write_bytes(content),
    "a FIFO": lambda path, _: os.mkfifo(path),
    "a link to nowhere": lambda path, _: path.symlink_to("nowhere"),
    "a link to itself": lambda path, _: path.symlink_to(path.name),
    "a link to the folder above": lambda path, _: path.symlink_to(".."),
    "a link outside": lambda path, _: path.symlink_to(beside(path)),
    "a link to a file outside": lambda path, _: path.symlink_to(beside(path) / "photo.jpg"),
    "endless zeros": lambda path, _: path.symlink_to("/dev/zero"),
}
entries = st.tuples(
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=5),
    st.sampled_from(list(KINDS)),
    DOCUMENTS | st.binary(max_size=40),
)
PLANNED = ["--sampler", "sgld", "--task", "mixture5", "--budget", "steps=20", "--seeds", "0-1"]
VERBS = (
    ["status"], ["ls", "runs"], ["gc", "--delete", "--failed"], ["ingest"], ["ingest", "--verify"], ["plan", *PLANNED],
    ["ingest", "--rebuild"], ["show", KEY], ["replay", KEY[:8]],
)  # fmt: skip


def outside(folder):
    """A stranger's files, beside a results folder."""
    (folder / "outside" / "runs" / KEY[:2] / KEY).mkdir(parents=True)
    (folder / "outside" / "photo.jpg").write_bytes(b"photo")
    fabricated.concluded(folder / "outside", 0)


def files(folder):
    return {path: path.read_bytes() if path.is_file() else None for path in (folder / "outside").rglob("*")}


@cases(8)
@given(st.lists(entries, max_size=12), st.booleans(), st.lists(st.sampled_from(VERBS), min_size=2, max_size=3))
def test_a_folder_of_any_content_is_refused_or_read(found, whole, verbs):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        outside(folder)
        results = folder / "results"
        results.mkdir()
        if whole:
            fabricated.concluded(results, 0)
        for names, kind, content in found:
            path = results.joinpath(*names)
            with contextlib.suppress(OSError):  # below a file, or there already
                if not os.path.realpath(path.parent).startswith(os.path.realpath(results)):
                    continue
                path.parent.mkdir(parents=True, exist_ok=True)
                KINDS[kind](path, content)
        before = files(folder)
        for words in verbs:
            ends_well(results, *words, codes={0, 1, 2, 4})
        assert files(folder) == before
