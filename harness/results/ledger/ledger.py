"""The results folder: the attempts at each run, and the status that the run has from them."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.results.ledger import seals
from harness.results.ledger.attempt import Attempt, is_thinned
from harness.results.records import CONTINUABLE, FAILED, FINAL, PAUSED, RESUMABLE, Status
from harness.system.errors import DataError, RunError, why
from harness.system.files import read_json, write_json
from harness.system.locks import Lock, excludes, held, lock_file, lock_folder
from harness.system.text import is_text

LAYOUT = 4
"""Version of the layout of a results folder: attempts have numbers, results are claimed (`commit`) and sealed."""
KEY = re.compile(r"[0-9a-f]{64}")
"""Matches a whole run key."""
CONFLICTS = "conflicts"
"""The folder of results that do not count, because the run or the attempt has another one. No command reads it."""
CHANGED = "changed"
"""The folder of marks, KEY.ATTEMPT, of attempts that changed since a database may have read them."""
TRASH = ".trash"
"""The folder to which `bench gc` moves attempts before it deletes them."""
NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "lustre", "gpfs", "fuse.sshfs", "beegfs", "ceph", "9p", "wekafs"}
)
"""File systems that may be mounted on several machines; their kernel locks may work on one machine only."""


@dataclass(frozen=True)
class RunStatus:
    """The status of a run, and the attempt that decides it.

    `status` is "new", "running", or that of the attempt: done, diverged, error, ..., cancelled, preempted, orphaned. It
    is "damaged" if the attempt's result.json is not as it was written; the run is then repeated in a new attempt.
    `thinned` says whether some of the kept draws were not stored.
    """

    status: str
    attempt: Attempt | None = None
    reason: str = ""
    thinned: bool = False

    @property
    def cached(self) -> bool:
        """Whether there is nothing to do."""
        return self.status in FINAL

    def done(self, draws: str) -> bool:
        """Return whether there is nothing to do if `draws` ("some" or "all") are to be stored."""
        return self.cached and not (draws == "all" and self.thinned)

    @property
    def failed(self) -> bool:
        """Whether the run was concluded without a result; it is run again only on request."""
        return self.status in FAILED

    @property
    def reason_to_repeat(self) -> str:
        """A text about an attempt that failed or is damaged, and about what runs it again."""
        if self.failed:
            return f"{self.status} before ({self.reason}); --retry runs it again"
        return f"done before, but {self.reason}; it is run again"

    @property
    def unfinished(self) -> Attempt | None:
        """The attempt that a worker can resume, if any."""
        return self.attempt if self.status in (*CONTINUABLE, Status.RUNNING) else None

    @property
    def resumable(self) -> Attempt | None:
        """The failed attempt whose checkpoint a new attempt can resume from, if any."""
        return self.attempt if self.status in RESUMABLE else None


Hold = tuple[Lock, Lock]
_HELD: dict[Path, Hold] = {}
"""The runs that this process holds, by their folders."""
os.register_at_fork(after_in_child=_HELD.clear)


class Ledger:
    """A results folder: `runs/`, `locks/`, `conflicts/` of merges, and the version of the layout in `ledger.json`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.runs = root / "runs"
        self.locks = root / "locks"
        self.conflicts = root / CONFLICTS

    def prepare(self) -> None:
        """Make the folders. Raises `DataError` if the folder cannot hold results."""
        self.check_version()
        if (self.root / "manifest.json").exists() and not self.runs.exists():
            raise DataError(f"{self.root} is an exported folder, which is read-only; choose another by --results DIR")
        try:
            self.runs.mkdir(parents=True, exist_ok=True)
            self.locks.mkdir(exist_ok=True)
            if (read_json(self.root / "ledger.json") or {}).get("layout") != LAYOUT:
                write_json(self.root / "ledger.json", {"layout": LAYOUT})
            if not os.path.lexists(self.root / seals.KEY_FILE):
                every = (attempt for key in self.all_keys() for attempt in self.attempts(key))
                seals.introduce(self.root, (attempt.path for attempt in every if not attempt.marked))
            if seals.key_of(self.root) is None:
                raise DataError(
                    f"{self.root / seals.KEY_FILE} cannot be read, so results made here could not be told from copied "
                    "ones; its owner can allow it (chmod g+r), or choose another folder by --results DIR"
                )
            with tempfile.TemporaryFile(dir=self.root) as probe:  # it has no name, so nothing of it remains
                probe.write(b"\0" * 4096)
        except OSError as error:
            raise DataError(f"cannot write results to {self.root}: {why(error)}") from error

    def check_version(self) -> None:
        """Raise `DataError` if a newer version of sgmcmc-bench wrote this folder, or it cannot be a results folder."""
        if not is_text(str(self.root)):  # DuckDB and JSON accept nothing else
            raise DataError(f"{self.root!s} is not UTF-8; choose another folder by --results DIR or BENCH_RESULTS")
        if self.root.exists() and not self.root.is_dir():
            raise DataError(f"{self.root} is a file; choose a folder by --results DIR or BENCH_RESULTS")
        others = (self.root / name for name in ("truths", "timings", "laws", "nights", "files", CHANGED))
        for folder in (self.runs, self.locks, self.conflicts, self.root / seals.KEY_FILE, *others):
            if folder.is_symlink():
                raise DataError(
                    f"{folder} is a link, which is not followed; put the folder itself there, or choose the results "
                    "folder that it leads to by --results DIR"
                )
        record = read_json(self.root / "ledger.json")
        layout = record.get("layout") if record else LAYOUT
        if not isinstance(layout, int) or layout > LAYOUT:
            raise DataError(
                f"{self.root} was written by a newer version (layout {layout}, this one knows {LAYOUT}); "
                "upgrade sgmcmc-bench, or choose another folder by --results DIR"
            )

    @property
    def secret(self) -> str:
        """A text that nobody knows who does not own the folder: its key."""
        return (seals.key_of(self.root) or b"").hex()

    def lock(self, key: str) -> Path:
        """Return the path of the lock file of a run or a device."""
        return self.locks / f"{key}.lock"

    def folder(self, key: str) -> Path:
        """Return the path of the folder of a run, which contains its attempts."""
        return self.runs / key[:2] / key

    @contextmanager
    def hold(self, key: str, patience: float) -> Iterator[Hold]:
        """Hold a run, its lock file and its folder, as its only writer. Raises `HeldError`, and `RunError` for a link.

        The lock file says who holds the run. The folder's own lock keeps a second writer out if the file is deleted.
        Within a process that holds the run already, this gives the same locks.
        """
        path = self.folder(key).resolve()
        if path in _HELD:
            yield _HELD[path]
            return
        part = self.folder(key).parent
        if part.is_symlink():
            raise RunError(f"{part} is a link, which is not followed; put the folder itself there, or delete the link")
        with lock_file(self.lock(key), patience) as file, lock_folder(self.folder(key), patience) as folder:
            _HELD[path] = file, folder
            try:
                yield file, folder
            finally:
                del _HELD[path]

    @property
    def filesystem(self) -> str:
        """The type of the file system of the folder, or "" if the kernel does not say."""
        return filesystem(self.root)

    def locks_reach(self) -> bool:
        """Return whether kernel locks here exclude all other processes; on network file systems they may not."""
        return self.filesystem not in NETWORK and (not self.locks.is_dir() or excludes(self.locks))

    def held(self, key: str) -> bool:
        """Return whether a process holds the run now."""
        return held(self.lock(key)) or held(self.folder(key))

    def all_keys(self) -> list[str]:
        """Return the keys of the runs that have a folder, in order."""
        keys = ((shard, key) for shard in folders(self.runs) for key in folders(self.runs / shard))
        return sorted(key for shard, key in keys if KEY.fullmatch(key) and key[:2] == shard)

    def attempts(self, key: str) -> list[Attempt]:
        """Return the attempts at a run, in the order in which they were made.

        A directory without spec.json is not one, nor is a link to a directory.
        """
        folder = self.folder(key)
        if folder.is_symlink() or folder.parent.is_symlink():
            return []
        return [Attempt(folder / name) for name in folders(folder) if (folder / name / "spec.json").exists()]

    def standing(self, key: str) -> RunStatus:
        """Return the status of a run: the final attempt that counts decides, or else the latest attempt.

        A result that was made here counts before a copied one, then one with all its draws, then the first.
        """
        finals: list[RunStatus] = []
        latest = RunStatus(Status.NEW)
        for attempt in self.attempts(key):
            result, damage = attempt.read_result()
            if result is not None and result["status"] in FINAL:
                finals.append(_concluded(attempt, result))
            elif result is not None:
                latest = _concluded(attempt, result)
            else:
                latest = self._unconcluded(key, attempt, damage)
        if len(finals) > 1:
            finals.sort(key=lambda final: (final.attempt is not None and final.attempt.copied, final.thinned))
        return finals[0] if finals else latest

    def _unconcluded(self, key: str, attempt: Attempt, damage: str) -> RunStatus:
        if damage:
            return RunStatus(Status.DAMAGED, attempt, damage)
        if self.held(key):
            return RunStatus(Status.RUNNING, attempt)
        return RunStatus(unfinished_status(attempt.last_event()), attempt)


def _concluded(attempt: Attempt, result: dict[str, object]) -> RunStatus:
    return RunStatus(str(result["status"]), attempt, str(result.get("reason") or ""), is_thinned(result))


def unfinished_status(last: str) -> str:
    """Return the status of an attempt that has no result and that no worker holds, from its last event."""
    return last if last in PAUSED else Status.ORPHANED


def folders(path: Path | str) -> list[str]:
    """Return the names of the folders within one, in order, without links and hidden folders."""
    try:
        with os.scandir(path) as entries:
            return sorted(e.name for e in entries if not e.name.startswith(".") and e.is_dir(follow_symlinks=False))
    except OSError:  # missing, deleted in the meantime, or not readable
        return []


def filesystem(path: Path) -> str:
    """Return the type of the file system that holds `path`, or "" if the kernel does not say."""
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return ""
    target = str(path.resolve())
    inside = [m for m in mounts if target == m[1] or target.startswith(m[1].rstrip("/") + "/")]
    return max(inside, key=lambda m: len(m[1]))[2] if inside else ""
