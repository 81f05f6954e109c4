"""Every way to spoil an attempt's directory, drawn by hypothesis: a `Damage` for each."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fuzz import arrays
from fuzz.hostile import NUMBERS, RAW, WORDS, values
from hypothesis import strategies as st

RECORDS = ("spec.json", "environment.json", "result.json")
FILES = (*RECORDS, "events.jsonl", "curves.safetensors")


@dataclass(frozen=True)
class Damage:
    """One way to spoil a folder. `do` returns where the attempt then lies, for it may have been moved."""

    name: str
    change: Callable[[Path], Any]

    def do(self, folder):
        """Where the file or member to spoil is not there, as in an attempt that has no result, nothing is spoilt."""
        with contextlib.suppress(FileNotFoundError, ZeroDivisionError):
            moved = self.change(folder)
            return moved if isinstance(moved, Path) and moved.is_dir() else folder
        return folder

    def __repr__(self):
        return self.name


def write(path, document):
    """A document, with the parts that no encoder writes."""
    text = json.dumps(document)
    while f'"{RAW}' in text:
        before, _, rest = text.partition(f'"{RAW}')
        raw, end = json.JSONDecoder().raw_decode('"' + rest)
        text = before + raw + rest[end - 1 :]
    path.write_text(text)


def _places(document, at=()):
    """The path of every member of a document, the document itself first."""
    paths = [at]
    if isinstance(document, dict | list):
        for key, inside in document.items() if isinstance(document, dict) else enumerate(document):
            paths += _places(inside, (*at, key))
    return paths


def _edited(file, which, edit):
    def change(folder):
        document = json.loads((folder / file).read_text())
        places = _places(document)[1:]
        *above, last = places[which % len(places)]
        inside = document
        for key in above:
            inside = inside[key]
        edit(inside, last)
        write(folder / file, document)

    return change


def member(file, which, value):
    return Damage(
        f"{file}: member {which} becomes {value!r:.60}",
        _edited(file, which, lambda d, k: d.update({k: value}) if isinstance(d, dict) else d.__setitem__(k, value)),
    )


def without(file, which):
    return Damage(f"{file}: member {which} is gone", _edited(file, which, lambda inside, key: inside.pop(key)))


def again(file, key, value):
    """A key for a second time, or a key more."""

    def change(folder):
        text = (folder / file).read_text().rstrip()
        (folder / file).write_text(f"{text[:-1]}, {json.dumps(key)}: {json.dumps(value)}}}")

    return Damage(f"{file}: {key!r:.30} once more, as {value!r:.30}", change)


def whole(file, value):
    return Damage(f"{file} is {value!r:.60}", lambda folder: write(folder / file, value))


def rewritten(file, name, change):
    return Damage(f"{file}: {name}", lambda folder: (folder / file).write_bytes(change((folder / file).read_bytes())))


def flipped(file, places, bit):
    def change(content):
        spoilt = bytearray(content)
        for at in places:
            spoilt[at % len(spoilt)] ^= 1 << bit
        return bytes(spoilt)

    return rewritten(file, f"bit {bit} flipped at {places}", change)


def cut(file, share):
    return rewritten(file, f"{share:.2f} of it", lambda content: content[: int(len(content) * share)])


def before(file, start):
    return rewritten(file, f"{start!r} in front", lambda content: start + content)


def other(file, content):
    return rewritten(file, f"{content!r:.40} instead", lambda _: content)


def line(content, ended):
    return rewritten("events.jsonl", f"{content!r:.60} at the end", lambda old: old + content + b"\n" * ended)


def event(name, key, value):
    """An event whose line is whole and whose members are not what they should be."""

    def change(folder):
        aside = folder / "line"
        write(aside, {"time": "2026-01-02T05:00:00+00:00", "event": name, key: value})
        with (folder / "events.jsonl").open("ab") as stream:
            stream.write(aside.read_bytes() + b"\n")
        aside.unlink()

    return Damage(f"an event {name!r:.20} with {key} = {value!r:.40}", change)


def curves(name, signed):
    """A file of arrays that is none; `signed` puts its checksum into the result."""

    def change(folder):
        (folder / "curves.safetensors").write_bytes(arrays.FILES[name])
        document = json.loads((folder / "result.json").read_text())
        if signed:
            document["files"]["curves.safetensors"] = hashlib.sha256(arrays.FILES[name]).hexdigest()
        (folder / "result.json").write_text(json.dumps(document))

    return Damage(f"curves.safetensors: {name}{', signed' if signed else ''}", change)


KINDS = {
    "nothing": lambda _: None,
    "a directory": lambda path: path.mkdir(),
    "a fifo": os.mkfifo,
    "a dangling link": lambda path: path.symlink_to("nowhere"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to endless zeros": lambda path: path.symlink_to("/dev/zero"),
    "a link to a directory": lambda path: path.symlink_to("/"),
    "an unreadable file": lambda path: path.touch(mode=0o000),
    "an empty file": lambda path: path.touch(),
}


def replaced(file, kind):
    def change(folder):
        (folder / file).unlink(missing_ok=True)
        KINDS[kind](folder / file)

    return Damage(f"{file} becomes {kind}", change)


def linked(file):
    """The same file, elsewhere: as harmless as it looks."""

    def change(folder):
        aside = folder.parent / f".{folder.name[:40]}-{file}"
        (folder / file).rename(aside)
        (folder / file).symlink_to(aside)

    return Damage(f"{file} becomes a link to where it is now", change)


def copied(file, target):
    return Damage(f"{target} becomes a copy of {file}", lambda folder: shutil.copyfile(folder / file, folder / target))


def _name(text):
    """A text as the name of a folder, where one can have it."""
    raw = text.replace("/", "%").replace("\0", "%").encode("utf-8", "surrogateescape")[:250]
    return os.fsdecode(raw) if raw not in {b"", b".", b".."} else "-"


def called(text):
    """The attempt's directory, and what its result says of it, under another name."""

    def change(folder):
        moved = folder.rename(folder.with_name(_name(text)))
        if (moved / "result.json").exists():
            document = json.loads((moved / "result.json").read_text())
            (moved / "result.json").write_text(json.dumps(document | {"attempt": moved.name}))
        return moved

    return Damage(f"the attempt is called {text!r:.40}", change)


def under(text):
    """The attempt in a run's directory of another name."""

    def change(folder):
        target = folder.parent.with_name(_name(text))
        target.mkdir(exist_ok=True)
        return None if (target / folder.name).exists() else folder.rename(target / folder.name)

    return Damage(f"the run is called {text!r:.40}", change)


def copied_run(end):
    """A whole run copied beside itself, as a user does before he edits."""
    return Damage(
        f"a copy of the run ends in {end!r}",
        lambda folder: [shutil.copytree(folder.parent, f"{folder.parent}{end}")],
    )


LINES = (
    b"[" * 100_000, b"{" * 5, b'{"event": 1, "time": 2}', b'{"event": "x"}', b'{"time": "2026-01-01"}', b"\xff\xfe\x00",
    b'{"time": "2026-01-02T03:04:05+00:00", "event": "\\ud800"}', b"null",
    b'{"time": "0001-01-01T00:00:00+23:59", "event": "x"}', b'{"time": "9999-12-31T23:59:59-23:59", "event": "x"}',
    b"[]", b"x" * 1_000_000, b"\x00" * 4096,
    b'{"time": "2026-01-02T03:04:05", "event": "running"}', b"1" * 5000, b"\x1b[31m",
)  # fmt: skip
NAMES = (
    "'; drop table attempt; --", "\x1b[31m", "\u202e", "-rf", " ", "a\nb", '"', "x" * 250, "\udcff\udcfe", "0" * 64,
    "<b>", "\U0001f600", "20260102T235959-0000ff",
)  # fmt: skip
STARTS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\x00", b" ", b"/**/", b"\x1b[31m")
KEYS = ("key", "status", "metrics", "seed", "id", "steps", "files", *WORDS)
EVENTS = (
    "created",
    "started",
    "resumed",
    "checkpoint",
    "warning",
    "diverged",
    "cancelled",
    "finished",
    "failed",
    "\x1b[31m",
)
MEMBERS = ("position", "steps", "device", "step", "chain", "seed", "text", "status", "time")

_records, _files, _any = st.sampled_from(RECORDS), st.sampled_from(FILES), st.integers(0, 200)
_shares = st.floats(0, 1).map(lambda share: round(share, 3))
damages = st.one_of(
    st.builds(member, _records, _any, values),
    st.builds(member, _records, _any, st.sampled_from(NUMBERS)),
    st.builds(without, _records, _any),
    st.builds(again, _records, st.sampled_from(KEYS), st.sampled_from((*NUMBERS, *WORDS, None))),
    st.builds(whole, _records, values),
    st.builds(replaced, _files, st.sampled_from(sorted(KINDS))),
    st.builds(linked, _files),
    st.builds(flipped, _files, st.lists(st.integers(0, 10_000), min_size=1, max_size=6), st.integers(0, 7)),
    st.builds(cut, _files, _shares),
    st.builds(other, _files, st.binary(max_size=40)),
    st.builds(before, _files, st.sampled_from(STARTS)),
    st.tuples(_files, _files).filter(lambda pair: pair[0] != pair[1]).map(lambda pair: copied(*pair)),
    st.builds(called, st.sampled_from(NAMES)),
    st.builds(under, st.sampled_from(NAMES)),
    st.builds(copied_run, st.sampled_from(("-backup", " (copy)", ".orig", "~"))),
    st.builds(curves, st.sampled_from(sorted(arrays.FILES)), st.booleans()),
    st.builds(line, st.sampled_from(LINES), st.booleans()),
    st.builds(event, st.sampled_from(EVENTS), st.sampled_from(MEMBERS), values),
)
