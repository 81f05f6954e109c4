import io
import pickle
import tarfile
import tomllib
from pathlib import Path

import numpy as np
import pytest
from support import make_loop, run_loop

import harness.contracts.data
from harness.application.launch import shortened
from harness.contracts.data import DataFile, digest
from harness.contracts.registry import load, registry
from harness.runs.plan import RunRequest, expand
from harness.system.errors import DataError, UsageError
from plugins.inspection.data import download
from plugins.samplers.msgld import MSGLD
from plugins.schedules.cyclical import Cyclical
from plugins.schedules.step_decay import StepDecay
from tasks.datasets.cifar import CIFAR10, cifar10, parse
from tasks.vision.cifar import Cifar10, Cifar100

PAPERS = Path(__file__).parents[3] / "plugins" / "papers"


def published(name):
    return tomllib.loads((PAPERS / f"{name}-networks.toml").read_text())["settings"]


def pickled(key="labels", labels=(3, 9, 0), missing=0):
    """A file as CIFAR's are: text keys, the pixels as one long string, file names behind the labels."""
    pixels = np.arange(3 * 3072 - missing, dtype=np.uint8).tobytes().decode("latin-1")
    document = {"batch_label": "of 1", key: list(labels), "data": pixels, "filenames": ["a.png", "b.png"]}
    return pickle.dumps(document, protocol=2)


def spec(method, task, budget="paper", **given):
    ((_, (run,)),) = expand(registry(), RunRequest([method], [task], seeds=[0], budget=budget, given=given))
    return run


def test_pixels_and_labels_are_read_without_unpickling():
    images, labels = parse(pickled(), "labels", "here")
    assert labels.tolist() == [3, 9, 0]
    assert images.shape == (3, 32, 32, 3)
    assert images[1, 2, 5, 2] == (3072 + 2 * 1024 + 2 * 32 + 5) % 256
    with pytest.raises(DataError, match="for 0 fine_labels"):
        parse(pickled(), "fine_labels", "here")
    with pytest.raises(DataError, match="9215 bytes of pixels for 3 labels"):
        parse(pickled(missing=1), "labels", "here")
    with pytest.raises(DataError, match="not a file of CIFAR"):
        parse(b"no pickle at all", "labels", "here")


def test_a_file_is_fetched_out_of_its_archive(tmp_path, monkeypatch):
    content = b"some bytes"
    packed = tmp_path / "there" / "set.tar.gz"
    packed.parent.mkdir()
    with tarfile.open(packed, "w:gz") as archive:
        entry = tarfile.TarInfo("folder/file")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    monkeypatch.setenv("BENCH_DATA", str(tmp_path / "here"))
    (tmp_path / "file").write_bytes(content)
    told = []

    def served(url, stream, _):
        told.append(url)
        stream.write(packed.read_bytes())

    monkeypatch.setattr("pooch.downloaders.choose_downloader", lambda _: served)
    url = "https://somewhere.example/set.tar.gz"
    file = DataFile("set", "folder/file", digest(tmp_path / "file"), len(content), (url,), archive=digest(packed))
    assert download(file).read_bytes() == content
    assert told == [url]
    assert harness.contracts.data.problem(file) is None
    lost = DataFile("set", "folder/other", "0" * 64, 1, (url,), archive=digest(packed))
    with pytest.raises(DataError, match="could not fetch folder/other"):
        download(lost)
    assert [path for path in (tmp_path / "here").rglob("*") if path.is_file()] == [tmp_path / "here/folder/file"]


def test_unseen_sets_bring_their_files_and_metrics():
    assert Cifar10().datasets == CIFAR10
    assert [file.dataset for file in Cifar10(unseen="both").datasets[6:]] == ["svhn", "cifar100"]
    assert {file.dataset for file in Cifar100(unseen="cifar").datasets} == {"cifar100", "cifar10"}
    assert "auroc_svhn" in {metric.name for metric in Cifar10(unseen="svhn").metrics}
    assert not any("svhn" in metric.name for metric in Cifar10().metrics)
    assert "last5_train_accuracy" in {metric.name for metric in Cifar10(train_accuracy=True).metrics}
    with pytest.raises(UsageError, match="more than the 50 rows"):
        Cifar10(train_images=50)


@pytest.mark.parametrize("paper", ["csgmcmc", "adaptive-drift"])
@pytest.mark.parametrize("budget", ["smoke", "quick", "paper"])
def test_all_published_settings_make_runs_that_keep_draws(paper, budget):
    tables = [table for table in published(paper) if table["task"].startswith("cifar")]
    for table, protocol in [(each, one) for each in tables for one in np.atleast_1d(each["protocol"])]:
        run = spec(table["method"], f"{table['task']}@{protocol}", budget)
        assert run.budget == budget
        for name, entry in table["values"].items():
            origin = run.origins[name]
            assert origin.provenance == entry["provenance"] or origin.source == f"protocol {protocol}, {budget}"
        schedule = registry().find("schedules", run.schedule.name)
        epoch = -(-50_000 // run.task.params["batch"])
        path = load(schedule.info.target)(**run.schedule.params).trajectory(run.steps, epoch)
        kept = np.flatnonzero(path.with_burn_in(run.burn_in, run.thin).keep)
        assert 1 <= len(kept) <= 60


def test_a_short_budget_says_what_it_changes_and_the_command_goes_before_it():
    run = spec("msgld", "cifar10", "smoke")
    assert (run.budget, run.task.params["width"], run.task.params["test_images"]) == ("smoke", 4, 250)
    assert shortened(run).startswith("cifar10@adaptive-drift: the smoke budget is a short one, with run.burn_in=0.5, ")
    assert "task.width=4" in shortened(run)
    assert not shortened(spec("msgld", "cifar10"))
    assert spec("msgld", "cifar10", "smoke", **{"task.width": 8}).task.params["width"] == 8
    same_length = spec("msgld", "cifar10", f"steps={run.steps}", **{"run.burn_in": 0.5, "run.thin": 1})
    assert same_length.task.params["width"] == 64
    assert same_length.budget != "smoke"


def test_the_cyclical_protocol_samples_as_the_authors_code_does():
    run = spec("csgld", "cifar10")
    assert run.steps == 156_400
    path = Cyclical(**run.schedule.params).trajectory(run.steps, 782)
    epoch = np.arange(run.steps) // 782
    assert np.array_equal(path.temperature > 0, (epoch % 50) + 1 > 45)
    kept = np.flatnonzero(path.keep)
    assert [int(k) // 782 % 50 + 1 for k in kept] == [48, 49, 50] * 4
    assert all((kept + 1) % 782 == 0)
    rate = path.step_size * 50_000
    np.testing.assert_allclose(rate[[0, 19_550, 39_099, 39_100]], [0.5, 0.25, 8.07e-10, 0.5], rtol=1e-3)
    hundred = spec("csgld", "cifar100")
    warm = Cyclical(**hundred.schedule.params).trajectory(hundred.steps, 782).temperature > 0
    assert np.array_equal(warm, (epoch % 50) + 1 > 47)


def test_the_baselines_average_the_last_20_epochs_and_optimisers_the_last():
    for method, epochs in (("sgld", 20), ("sghmc", 20), ("sgd", 1), ("sgdm", 1)):
        run = spec(method, "cifar100@csgmcmc")
        schedule = load(registry().find("schedules", run.schedule.name).info.target)(**run.schedule.params)
        path = schedule.trajectory(run.steps, 782).with_burn_in(run.burn_in, run.thin)
        assert (np.flatnonzero(path.keep) + 1).tolist() == [782 * e for e in range(201 - epochs, 201)]
        assert np.array_equal(path.temperature > 0, np.arange(run.steps) >= 150 * 782)


def test_the_adaptive_drift_protocol_keeps_the_ends_of_the_last_five_epochs():
    run = spec("msgld", "cifar100")
    path = StepDecay(**run.schedule.params).trajectory(run.steps, 500)
    kept = np.flatnonzero(path.with_burn_in(run.burn_in, run.thin).keep) + 1
    assert kept.tolist() == [500 * epoch for epoch in range(246, 251)]
    assert run.task.params["prior_precision"] == 75.0
    quick = spec("msgld", "cifar100", "quick")
    short = StepDecay(**quick.schedule.params).trajectory(quick.steps, 500).with_burn_in(quick.burn_in, quick.thin)
    assert (np.flatnonzero(short.keep) + 1).tolist() == [1500, 2000, 2500]
    np.testing.assert_allclose(path.step_size[[0, 44_999, 45_000, 90_000]] * 50_000, [0.1, 0.1, 0.01, 0.001])


@pytest.mark.data
def test_cifar10_is_read_whole():
    images, labels = cifar10("test")
    assert images.shape == (10_000, 32, 32, 3)
    assert np.bincount(labels).tolist() == [1000] * 10
    assert labels[:5].tolist() == [3, 8, 8, 0, 6]
    assert images[0, 0, 0].tolist() == [158, 112, 49]


@pytest.mark.data
def test_a_narrow_network_runs_on_the_real_images():
    task = Cifar10(width=2, train_images=200, test_images=60, batch=64)
    schedule = StepDecay(step_size=2e-6, temperature=1e-5)
    values = run_loop(make_loop(task, MSGLD(), schedule, 6, chains=1, burn_in=4)).runs[0].observer.outcome().metrics
    assert 0 < values["test_error"] <= 100
