import numpy as np
import pytest
from safetensors.numpy import save_file

from plugins.upkeep.bitwise import differing_arrays, differing_results


@pytest.fixture
def folders(tmp_path):
    for name in ("stored", "again"):
        (tmp_path / name).mkdir()
    return tmp_path / "stored", tmp_path / "again"


def write(folder, **arrays):
    save_file({name.replace("__", "/"): np.asarray(array) for name, array in arrays.items()}, folder / "x.safetensors")


def differing(folders, ours, theirs, **options):
    write(folders[0], **ours)
    write(folders[1], **theirs)
    return differing_arrays(*folders, "x.safetensors", **options)


def test_equal_bits_are_no_difference_nan_included(folders):
    arrays = {"a": np.array([1.0, np.nan, np.inf]), "b": np.arange(3)}
    assert differing(folders, arrays, arrays) == []


def test_zeros_of_two_signs_differ(folders):
    (found,) = differing(folders, {"a": np.array([0.0])}, {"a": np.array([-0.0])})
    assert (found.stored, found.again, found.largest) == ("0.0", "-0.0", 0.0)


def test_shape_type_and_absence_are_differences(folders):
    found = differing(
        folders,
        {"a": np.zeros(2), "b": np.zeros(2), "c": np.zeros(2)},
        {"a": np.zeros(3), "b": np.zeros(2, np.float32), "d": np.zeros(1)},
    )
    assert [(d.entry, d.stored, d.again) for d in found] == [
        ("a", "float64 (2,)", "float64 (3,)"),
        ("b", "float64 (2,)", "float32 (2,)"),
        ("c", "float64 (2,)", "absent"),
        ("d", "absent", "float64 (1,)"),
    ]


def test_curves_are_named_by_chain_and_point(folders):
    y = np.zeros((2, 3))
    other = y.copy()
    other[1, 2] = 1
    (found,) = differing(folders, {"b2__y": y}, {"b2__y": other})
    assert (found.entry, found.where) == ("b2/y", "chain 1, point 2")


def test_results_differ_in_what_a_run_decides_and_not_in_time():
    def result(value, **changes):
        return {
            "status": "done", "steps_done": 5, "seconds": {"sampling": value}, "finished": str(value),
            "metrics": [{"name": "m", "value": 1.0}],
        } | changes  # fmt: skip

    assert differing_results(result(1.0), result(2.0)) == []
    found = differing_results(
        result(1.0), result(1.0, status="diverged", step=3, metrics=[{"name": "m", "value": None}])
    )
    assert [(d.entry, d.stored, d.again) for d in found] == [
        ("status", "done", "diverged"), ("step", "None", "3"), ("metric m", "1.0", "None"),
    ]  # fmt: skip
