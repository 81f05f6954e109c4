"""Attempt folders from somebody else: reading them neither blocks nor leaves the folder nor fills the memory."""

import contextlib
import hashlib
import json
import os
import resource
import shutil
from pathlib import Path

import fabricated
import pytest
from fuzz import arrays

from harness.results.ledger.attempt import Attempt
from harness.results.ledger.ledger import Ledger
from harness.results.store import Store
from harness.system.errors import DataError, RunError
from plugins.upkeep.bitwise import differing_arrays
from plugins.upkeep.lookup import concluded_attempt

CONTENT = "the secret of a file that is not in the folder"
RECORDS = ("spec.json", "result.json", "events.jsonl", "environment.json", "curves.safetensors")
HUGE = 2**40
"""Bytes of a file of zeros that takes no place on disk."""


pytestmark = pytest.mark.usefixtures("no_hang")


@pytest.fixture(autouse=True)
def bounded():
    """Filling the memory is a failure."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_used() + 2**31, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, limits)


def _used():
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    for seed in range(2):
        fabricated.concluded(folder / "results", seed)
    return folder / "results"


@pytest.fixture
def results(two_runs, tmp_path):
    shutil.copytree(two_runs, tmp_path / "results")
    (tmp_path / "secret").write_text(CONTENT)
    return tmp_path / "results"


def attempt(results):
    (folder,) = results.glob(f"runs/*/{fabricated.run_key(0)}/*")
    return folder


def huge(path, _):
    with path.open("wb") as stream:
        stream.truncate(HUGE)


def elsewhere(path, outside):
    """The file itself, outside: what follows the link finds everything as it should be."""
    path.rename(outside / path.name)
    path.symlink_to(outside / path.name)


KINDS = {
    "a pipe": lambda path, _: (path.unlink(), os.mkfifo(path)),
    "a folder": lambda path, _: (path.unlink(), path.mkdir()),
    "a link to the file elsewhere": elsewhere,
    "a link to another file": lambda path, outside: (path.unlink(), path.symlink_to(outside / "secret")),
    "a link to endless zeros": lambda path, _: (path.unlink(), path.symlink_to("/dev/zero")),
    "a terabyte of zeros": huge,
}


def reads(results):
    """All that the ledger's side reads of an attempt."""
    one = Attempt(attempt(results))
    one.events()
    one.read_result()
    Ledger(results).standing(fabricated.run_key(0))
    differing_arrays(one.path, one.path, "curves.safetensors")


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_none_of_ours_is_named_and_not_read(results, tmp_path, name, kind):
    KINDS[kind](attempt(results) / name, tmp_path)
    if (name, kind) != ("curves.safetensors", "a terabyte of zeros"):
        with contextlib.suppress(OSError, ValueError):
            reads(results)
    notes = Store(results).refresh()
    assert all(str(attempt(results)) in note for note in notes)
    assert not any(CONTENT in note for note in notes)
    runs = Store(results).rows("select seed from result order by seed")
    assert runs in ([{"seed": 1}], [{"seed": 0}, {"seed": 1}])
    assert notes or (name == "events.jsonl" and runs == [{"seed": 0}, {"seed": 1}])


@pytest.mark.parametrize("level", range(1, 4), ids=["attempt", "run", "part"])
def test_a_link_to_a_folder_is_not_followed(results, tmp_path, level):
    folder = [attempt(results), *attempt(results).parents][level - 1]
    name = attempt(results).name
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    ledger = Ledger(results)
    assert ledger.standing(fabricated.run_key(0)).status == "new"
    with pytest.raises(Exception, match="there is no"):
        concluded_attempt(ledger, name)
    Store(results).refresh()
    assert Store(results).rows("select seed from result") == [{"seed": 1}]


@pytest.mark.parametrize("linked", [0, 1], ids=["run", "part"])
def test_nothing_is_written_through_a_link(results, tmp_path, linked):
    key = fabricated.run_key(7)
    (tmp_path / "elsewhere").mkdir()
    link = (results / "runs" / key[:2] / key, results / "runs" / key[:2])[linked]
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(tmp_path / "elsewhere")
    ledger = Ledger(results)
    ledger.prepare()
    with pytest.raises(RunError), ledger.hold(key, 0):
        pytest.fail("it is held")
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("name", ["runs", "locks", "truths", "nights"])
def test_a_link_for_all_of_them_is_refused(results, tmp_path, name):
    (tmp_path / "elsewhere").mkdir()
    if (results / name).exists():
        shutil.rmtree(results / name)
    (results / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DataError, match="is a link"):
        Ledger(results).check_version()


@pytest.mark.parametrize(
    "what", ["more empty chains than numbers", "a huge shape", "a header of 2^63", "a deep header"]
)
def test_arrays_with_a_header_that_lies_do_not_keep_the_others_out(results, what):
    folder = attempt(results)
    content = arrays.FILES[what]
    (folder / "curves.safetensors").write_bytes(content)
    document = json.loads((folder / "result.json").read_text())
    document["files"]["curves.safetensors"] = hashlib.sha256(content).hexdigest()
    (folder / "result.json").write_text(json.dumps(document))
    store = Store(results)
    store.refresh()
    assert {"seed": 1} in store.rows("select seed from result")


@pytest.mark.parametrize(
    "path",
    ["x", "../../outside/a", "runs/../../a", f"runs/00/{'0' * 64}/.."],
)
def test_a_database_that_leads_elsewhere_is_not_believed(results, path):
    import duckdb

    store = Store(results)
    store.refresh()
    with duckdb.connect(str(store.path)) as db:
        db.execute("update attempt set path = ?, concluded = false", [path])
    (note,) = store.refresh()
    assert "is a database that bench did not write" in note
    assert len(store.rows("select * from result")) == 2
