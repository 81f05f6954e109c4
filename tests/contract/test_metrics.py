"""Metrics and curves of fixed draws: numbers that change without a version fail here (tests/metrics.py)."""

import json

import metrics
import pytest

from harness.results.spec import ENGINE

STORED = json.loads(metrics.FILE.read_text())
SLOW = ("blr-a9a",)


def marks(kind):
    return [pytest.mark.data] * (kind in metrics.ON_DATA) + [pytest.mark.slow] * (kind in SLOW)


@pytest.mark.numbers
@pytest.mark.parametrize("kind", [pytest.param(kind, marks=marks(kind)) for kind in metrics.KINDS])
def test_metrics_and_curves_have_the_numbers_of_their_versions(kind):
    if why := metrics.missing(kind):
        pytest.skip(f"{why} under BENCH_DATA")
    computed, stored = metrics.numbers(kind), STORED["kinds"].get(kind, {})
    assert STORED["engine"] == ENGINE, f"ENGINE was raised: {metrics.WRITE}"
    assert computed.keys() == stored.keys(), f"versions were raised, or metrics added or removed: {metrics.WRITE}"
    for name, numbers in computed.items():
        metrics.check(kind, name, numbers, *stored[name])


def test_every_built_in_task_is_measured_or_has_the_observer_of_one_that_is():
    assert set(metrics.SAME) <= set(metrics.INFOS)
    assert set(metrics.SAME.values()) <= set(metrics.KINDS)
    assert {name for name in metrics.KINDS if name not in metrics.MADE and metrics.task(name).datasets} == {
        *metrics.ON_DATA
    }


def test_a_number_that_changes_under_its_version_is_refused(monkeypatch, tmp_path):
    """By the test, with what to do; and by the script, which would otherwise hide it."""
    plain = metrics.numbers("gaussian2d")
    name = next(name for name in plain if name.startswith("metric joint_error"))
    other = {**plain, name: [plain[name][0] * (1 + 1e-6)]}
    with pytest.raises(AssertionError, match=r"raise its version.* write the file anew.*\s.*On this machine:\n  cpu: "):
        metrics.check("gaussian2d", name, other[name], *STORED["kinds"]["gaussian2d"][name])
    before = metrics.FILE.read_text()
    (tmp_path / "metrics.json").write_text(before)
    monkeypatch.setattr(metrics, "FILE", tmp_path / "metrics.json")
    monkeypatch.setattr(metrics, "KINDS", ["gaussian2d"])
    monkeypatch.setattr(metrics, "numbers", lambda *_: other)
    with pytest.raises(AssertionError, match="raise its version"):
        metrics.main()
    assert metrics.FILE.read_text() == before
    raised = {name.replace("1", "2") if "joint_error" in name else name: values for name, values in other.items()}
    monkeypatch.setattr(metrics, "numbers", lambda *_: raised)
    metrics.main()
    assert raised.keys() == json.loads(metrics.FILE.read_text())["kinds"]["gaussian2d"].keys()
