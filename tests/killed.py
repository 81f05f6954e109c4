"""Writes through harness/system/files.py that end at each call that changes a file: killed, or the disk is full there.

python tests/killed.py FOLDER: it forks, so it needs a process without threads.
"""

from __future__ import annotations

import errno
import itertools
import os
import sys
from pathlib import Path

from harness.system import files

CALLS = ("open", "write", "fsync", "replace", "rename", "unlink", "mkdir")
OLD = {"a.bin": b"old a" * 99, "b.bin": b"old b" * 99, "sub/c.bin": b"old c", "same.bin": b"same"}
NEW = {"a.bin": b"new a" * 77, "b.bin": b"new b" * 99, "sub/c.bin": b"new c", "same.bin": b"same", "d.bin": b"d"}
MANIFEST = "manifest.json"


def nothing(folder):
    folder.mkdir()


def old_set(folder):
    folder.mkdir()
    files.write_set(folder, OLD, MANIFEST)


def unfinished_set(folder):
    """Complete, but its writer was killed before it put two files in place."""
    old_set(folder)
    for name in ("a.bin", "sub/c.bin"):
        path = folder / name
        path.replace(files.aside(path, files._sha256(OLD[name])[:16]))
        path.write_bytes(b"older")
    assert files.read_set(folder, MANIFEST) == OLD


def write_set(folder):
    with files.alone(folder):
        files.write_set(folder, NEW, MANIFEST)


def write_folder(folder):
    if not (folder / "new").exists():
        files.write_folder(folder / "new", NEW)


def write_whole(folder):
    files.write_whole(folder / "a.bin", NEW["a.bin"])


def in_place(folder, expected):
    return all((folder / name).read_bytes() == content for name, content in expected.items())


SCENES = {
    "a set over a set": (old_set, write_set, lambda at: files.read_set(at, MANIFEST) in (OLD, NEW)),
    "a set over an unfinished one": (unfinished_set, write_set, lambda at: files.read_set(at, MANIFEST) in (OLD, NEW)),
    "a first set": (nothing, write_set, lambda at: files.read_set(at, MANIFEST) in (None, NEW)),
    "a folder": (nothing, write_folder, lambda at: not (at / "new").exists() or in_place(at / "new", NEW)),
    "a file": (old_set, write_whole, lambda at: any(in_place(at, {"a.bin": one["a.bin"]}) for one in (OLD, NEW))),
}
"""Name -> what is there before, the write, and what holds whenever it ends."""
AFTER = {"a folder": lambda at: in_place(at / "new", NEW), "a file": lambda at: in_place(at, {"a.bin": NEW["a.bin"]})}


def end_at(number, fault):
    """Make one call, counted from 0, the last of this process, or one that fails; a write has written half by then."""
    numbers = itertools.count()

    def wrapped(name, call):
        def faulty(*arguments, **options):
            if (name == "open" and not arguments[1] & os.O_CREAT) or next(numbers) != number:
                return call(*arguments, **options)
            if name == "write":
                call(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
            if fault == "killed":
                os._exit(9)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        return faulty

    for name in CALLS:
        setattr(os, name, wrapped(name, getattr(os, name)))
    return numbers


def ended(work, folder, number, fault):
    """The exit code of a process that does the work: 9 where it was killed, 8 where it said that the disk was full, 7
    where it did without that call, 0 where it ended before it.
    """
    child = os.fork()
    if not child:
        numbers = end_at(number, fault)
        try:
            work(folder)
        except OSError as error:
            os._exit(8 if error.errno == errno.ENOSPC and error.filename is not None else 1)
        os._exit(7 if next(numbers) > number else 0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def play(scene, fault, base):
    """Give the fault at the first call, the second, ...; how many calls there are."""
    prepare, work, holds = SCENES[scene]
    for number in itertools.count():
        folder = base / f"{scene}, {fault} at {number}"
        prepare(folder)
        code = ended(work, folder, number, fault)
        assert code in ((0, 9) if fault == "killed" else (0, 7, 8)), f"{folder}: {code}"
        assert holds(folder), folder
        left = [*folder.rglob(".*")]
        work(folder)  # the same again
        assert AFTER.get(scene, lambda at: in_place(at, NEW) and files.read_set(at, MANIFEST) == NEW)(folder), folder
        for path in left:
            if path.exists():
                os.utime(path, (1, 1))  # from long ago
        for path in (folder / "new", *(folder / name for name in (*NEW, MANIFEST))):
            files.sweep(path)
        assert not [*folder.rglob(".*")], [*folder.rglob(".*")]
        if code == 0:
            return number
    raise AssertionError


if __name__ == "__main__":
    os.fsync = lambda _: None  # what a process wrote outlives it without
    for scene in SCENES:
        print(scene, *(play(scene, fault, Path(sys.argv[1])) for fault in ("killed", "refused")), sep=": ")  # noqa: T201
