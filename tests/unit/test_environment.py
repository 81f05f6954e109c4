import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import fabricated
import pytest
from support import install

from harness.results import environment, provenance

SOURCE = "from harness import hook\n"


@pytest.fixture(autouse=True)
def _forget():
    provenance.code.cache_clear()


def git(folder, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", *identity, "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path):
    """A committed checkout with the package `somewhere`, and notes beside it."""
    root = tmp_path / "checkout"
    (root / "src" / "somewhere").mkdir(parents=True)
    (root / "src" / "somewhere" / "__init__.py").write_text(SOURCE)
    (root / "notes.txt").write_text("notes")
    git(tmp_path, "init", str(root))
    git(root, "add", ".")
    git(root, "commit", "-m", "first")
    return root


def install_somewhere(site, direct_url=None):
    files = {"direct_url.json": json.dumps(direct_url)} if direct_url else {}
    install(site, "somewhere", requires=["numpy"], **files, **{"entry_points.txt": "[bench]\nsomewhere = somewhere\n"})


def state(commit, *, dirty):
    return {"commit": commit, "dirty": dirty}


def test_an_editable_installation_has_the_commit_of_its_checkout(checkout, tmp_path, monkeypatch):
    install_somewhere(tmp_path / "site", {"url": checkout.as_uri(), "dir_info": {"editable": True}})
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.syspath_prepend(checkout / "src")
    commit = git(checkout, "rev-parse", "HEAD")
    assert provenance.code("somewhere") == state(commit, dirty=False)
    (checkout / "notes.txt").write_text("other notes")
    provenance.code.cache_clear()
    assert provenance.code("somewhere") == state(commit, dirty=False)
    (checkout / "src" / "somewhere" / "new.py").write_text(SOURCE)
    provenance.code.cache_clear()
    assert provenance.code("somewhere") == state(commit, dirty=True)


def test_an_ordinary_installation_has_the_commit_of_its_origin(checkout, tmp_path, monkeypatch):
    site = tmp_path / "site"
    install_somewhere(site, {"url": checkout.as_uri(), "dir_info": {}})
    shutil.copytree(checkout / "src" / "somewhere", site / "somewhere")
    monkeypatch.syspath_prepend(site)
    commit = git(checkout, "rev-parse", "HEAD")
    assert provenance.code("somewhere") == state(commit, dirty=False)
    compiled, more = (site / "somewhere" / name for name in ("__pycache__/x.pyc", "more.py"))
    compiled.parent.mkdir(exist_ok=True)
    for path, changed in ((compiled, False), (more, True)):
        path.touch()
        provenance.code.cache_clear()
        assert provenance.code("somewhere") == state(commit, dirty=changed)
    more.unlink()
    (site / "somewhere" / "__init__.py").write_text(SOURCE.swapcase())
    provenance.code.cache_clear()
    assert provenance.code("somewhere") == state(commit, dirty=True)


def test_what_is_read_ahead_is_compared_again_where_it_changes(checkout, tmp_path, monkeypatch):
    site = tmp_path / "site"
    install_somewhere(site, {"url": checkout.as_uri(), "dir_info": {}})
    shutil.copytree(checkout / "src" / "somewhere", site / "somewhere")
    monkeypatch.syspath_prepend(site)
    provenance.read_ahead("somewhere")
    (site / "somewhere" / "__init__.py").write_text(SOURCE.swapcase())
    assert provenance.code("somewhere") == state(git(checkout, "rev-parse", "HEAD"), dirty=True)


def test_an_installation_from_a_repository_has_the_commit_that_pip_wrote_down(tmp_path, monkeypatch):
    site = tmp_path / "site"
    install_somewhere(site, {"url": "https://example.org/r.git", "vcs_info": {"vcs": "git", "commit_id": "b" * 40}})
    (site / "somewhere").mkdir()
    (site / "somewhere" / "__init__.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(site)
    assert provenance.code("somewhere") == state("b" * 40, dirty=False)


@pytest.mark.parametrize("name", ["somewhere", "not-installed-at-all"])
def test_without_git_the_commit_is_unknown(tmp_path, monkeypatch, name):
    site = tmp_path / "site"
    install_somewhere(site)
    (site / "somewhere.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert provenance.code(name) == provenance.UNKNOWN


def test_the_environment_is_json_and_its_id_the_digest_of_the_rest():
    record = environment.collect("cpu", ["numpy"])
    rest = json.loads(json.dumps(record, allow_nan=False))
    text = json.dumps({k: v for k, v in rest.items() if k not in {"id", "code"}}, sort_keys=True, separators=(",", ":"))
    assert record["id"] == hashlib.sha256(text.encode()).hexdigest()
    assert environment.collect("cpu", ["numpy"]) == record
    assert environment.collect("cuda:0", ["numpy"])["id"] != record["id"]
    assert set(record["code"]) == {"numpy", "sgmcmc-bench"}
    assert record["packages"]["numpy"] == record["code"]["numpy"]["version"]
    assert record["cores"] >= 1


def test_code_is_outside_the_id_and_documents_of_earlier_versions_stay_whole():
    """A commit makes no new environment; earlier ids cover the code."""
    record = environment.collect("cpu", [])
    code = record["code"]["sgmcmc-bench"]
    assert code.keys() == {"version", "commit", "dirty", "digest"}
    assert code["digest"] == provenance.digest("sgmcmc-bench")
    assert environment.is_whole(record)
    other = {**record, "code": {"sgmcmc-bench": {**code, "commit": "b" * 40, "digest": "c" * 64}}}
    assert environment.is_whole(other)
    assert not environment.is_whole({**record, "cpu": "another"})
    assert not environment.is_whole({**record, "code": "x"})
    former = fabricated.environment()
    assert environment.is_whole(former)
    assert not environment.is_whole({**former, "code": other["code"]})
    assert not environment.is_whole({**former, "cpu": "another"})


def test_the_digest_is_the_same_for_a_checkout_and_what_is_installed_from_it(tmp_path):
    for name in ("checkout", "site"):
        shutil.copytree(provenance.HOME, tmp_path / name / "harness", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "site/harness/__pycache__").mkdir()
    (tmp_path / "site/harness/__pycache__/x.cpython-311.pyc").write_bytes(b"x")
    (tmp_path / "checkout/harness/.x.swp").write_text("x")
    digests = {provenance._hash([tmp_path / name / "harness"]) for name in ("checkout", "site")}
    assert digests == {provenance.digest("sgmcmc-bench")}


def test_the_digest_is_that_of_earlier_versions(tmp_path):
    """Results have it: names are in the order of their parts, so that the files of a folder stay together."""
    names = ("a.py", "a/b.py", "a-b/c.py", "Z.toml", ".hidden/x.py", "a/.x.py", "a/x.pyc")
    for name in names:
        path = tmp_path / "package" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    total = hashlib.sha256()
    for name in sorted(names[:4], key=Path):
        total.update(f"package/{name} {hashlib.sha256(name.encode()).hexdigest()}\n".encode())
    assert provenance._hash([tmp_path / "package"]) == total.hexdigest()


@pytest.mark.parametrize("suffix", [".py", ".cpp", ".h", ".html"])
def test_the_digest_covers_every_kind_of_source(tmp_path, suffix):
    shutil.copytree(provenance.HOME, tmp_path / "harness", ignore=shutil.ignore_patterns("__pycache__"))
    path = min((tmp_path / "harness").rglob(f"*{suffix}"))
    path.write_text(f"{path.read_text()}\n")
    assert provenance._hash([tmp_path / "harness"]) != provenance.digest("sgmcmc-bench")


def test_torch_is_asked_but_cuda_is_not_started():
    import torch

    started = torch.cuda.is_initialized()
    record = environment.collect("cuda:0", [])
    assert record["threads"] == torch.get_num_threads()
    assert record["deterministic"] == torch.are_deterministic_algorithms_enabled()
    assert torch.cuda.is_initialized() == started
    torch.use_deterministic_algorithms(True)
    try:
        assert environment.collect("cuda:0", [])["deterministic"] is True
    finally:
        torch.use_deterministic_algorithms(False)


def test_packages_are_those_required_and_no_others(tmp_path, monkeypatch):
    for name, requires in {"aaa": ["bbb>=1"], "bbb": ['ccc; extra == "more"'], "ccc": [], "ddd": []}.items():
        install(tmp_path, name, requires=requires)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(environment, "HARNESS", "aaa")
    environment.requirements.cache_clear()
    assert environment.requirements(("aaa",)) == {"aaa": "1.0", "bbb": "1.0"}
    environment.requirements.cache_clear()


def test_gpus_are_counted_by_the_driver_or_by_their_files_and_only_those_that_are_visible(tmp_path, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(environment, "DRIVER", tmp_path / "gpus")
    monkeypatch.setattr(environment, "DEVICES", tmp_path)
    assert environment.gpus() == []
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    assert environment.gpus() == ["cuda:0", "cuda:1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-1234")
    assert environment.gpus() == ["cuda:0"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert environment.gpus() == []
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    for name in ("0000:01:00.0", "0000:02:00.0", "0000:03:00.0"):
        (tmp_path / "gpus" / name).mkdir(parents=True)
    assert environment.gpus() == ["cuda:0", "cuda:1", "cuda:2"]
