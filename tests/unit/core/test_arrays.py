"""Wrong arrays of a task are errors that name them, before the first step; unusual ones have the usual numbers."""

import re

import numpy as np
import pytest
import torch
from support import run_loop
from wrong_arrays import BASES, CLASSIFIERS, Line, Logits, Module, begin, right

from harness.contracts.randomness import TUNING_SEED, Streams
from harness.system.errors import DataError, PluginError
from harness.tasks import Network, Observer, Outcome

pytestmark = pytest.mark.usefixtures("one_thread")


def changed(part, name, change):
    arrays = right()
    arrays[part][name] = change(arrays[part][name])
    return arrays


def with_value(value, *index):
    def change(array):
        array = array.astype(np.result_type(array, type(value)))
        array[index] = value
        return array

    return change


FEATURES = {
    "one row more": (lambda x: np.vstack([x, x[:1]]), "must have the same number of rows: x ("),
    "masked": (lambda x: np.ma.masked_array(x, np.abs(x) > 1.5), "x: it is masked, without a value, at [["),
    "object": (lambda x: x.astype(object), "x: it is of type object, not of numbers"),
    "text": (lambda x: x.astype(str), "x: it is of type <U"),
    "dates": (lambda x: x.astype("M8[s]"), "x: it is of type datetime64[s], not of numbers"),
    "complex": (lambda x: x + 0j, "x: it is of type complex128, not of numbers"),
    "ragged": (lambda x: [[1.0], *x.tolist()[1:]], "x: its rows have different lengths"),
    "a number": (lambda _: np.float64(1), "must have the same number of rows: x ()"),
    "nothing": (lambda _: None, "x: it is of type object"),
    "nan": (with_value(np.nan, 3, 2), "x is nan at row 3, column 2, not finite in float"),
    "inf": (with_value(np.inf, 3, 2), "x is inf at row 3, column 2"),
    "-inf": (with_value(-np.inf, 0, 0), "x is -inf at row 0, column 0"),
    "all nan": (lambda x: x * np.nan, "x is nan at row 0, column 0"),
}
LABELS = {
    "one row more": (lambda y: np.append(y, 0), "must have the same number of rows"),
    "whole floats": (lambda y: y.astype(float), "label: it is of type float64, not of integers"),
    "nan": (lambda y: np.where(y == 1, np.nan, y), "label is nan at row 1, not finite"),
    "fractions": (lambda y: y / 2, "label: it is of type float64, not of integers: [0.  0.5 1. ] ..."),
    "negative": (with_value(-1, 2), "label: row 2 is -1; classes are 0 ... K - 1"),
    "too large": (with_value(7, 2), "label: row 2 is 7, "),
    "one-hot": (lambda y: np.eye(3, dtype=int)[y], "3), not one number a row; one-hot: label.argmax(1)"),
    "column": (lambda y: y[:, None], "1), a column; pass label[:, 0]"),
    "text": (lambda y: y.astype(str), "label: it is of type <U"),
    "object": (lambda y: y.astype(object), "label: it is of type object"),
    "one number": (lambda _: np.array(3), "label ()"),
}
TEST_ONLY = {
    "x, wider": ("x", lambda x: np.hstack([x, x]), "but rows of train are (4,) of float64"),
    "x, flat": ("x", lambda x: x[:, 0], "x: it is (11,) of float64, but rows of train are (4,)"),
    "x, of integers": ("x", lambda x: (255 * x).astype(np.uint8), "uint8, but rows of train are (4,) of float64"),
    "label, from one": ("label", lambda y: y + 1, "label: row 2 is 3, but the model has 3 outputs"),
}


@pytest.mark.parametrize("part", ["train", "test"])
@pytest.mark.parametrize("kind", FEATURES)
@pytest.mark.parametrize("base", BASES)
def test_wrong_features_are_named(base, kind, part):
    if base is Line and part == "test":
        pytest.skip("its test rows are not used")
    change, message = FEATURES[kind]
    with pytest.raises(DataError, match=rf"^{base.__name__}\.arrays\('{part}'\): .*{re.escape(message)}"):
        begin(base, changed(part, "x", change))


@pytest.mark.parametrize("part", ["train", "test"])
@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("base", CLASSIFIERS)
def test_wrong_labels_are_named(base, kind, part):
    change, message = LABELS[kind]
    with pytest.raises(DataError, match=rf"^{base.__name__}\.arrays\('{part}'\): .*{re.escape(message)}"):
        begin(base, changed(part, "label", change))


@pytest.mark.parametrize("kind", TEST_ONLY)
@pytest.mark.parametrize("base", CLASSIFIERS)
def test_parts_that_do_not_fit_each_other_are_named(base, kind):
    name, change, message = TEST_ONLY[kind]
    with pytest.raises(DataError, match=rf"^{base.__name__}\.arrays\('test'\): .*{re.escape(message)}"):
        begin(base, changed("test", name, change))


@pytest.mark.parametrize("base", CLASSIFIERS)
def test_whole_numbers_beside_floats_are_numbers(base):
    """A column of a table may have whole numbers in the test rows alone; bytes are images on another scale."""
    begin(base, changed("test", "x", lambda x: np.rint(x).astype(np.int64)))


@pytest.mark.parametrize("base", CLASSIFIERS)
@pytest.mark.parametrize("part", ["train", "test"])
def test_an_array_that_is_missing_is_named(base, part):
    for name in ("label", "x") if base is not Logits else ("label",):
        arrays = right()
        del arrays[part][name]
        with pytest.raises(DataError, match=rf"arrays\('{part}'\): there is no array '{name}'"):
            begin(base, arrays)


@pytest.mark.parametrize("base", CLASSIFIERS)
def test_labels_from_one_are_named(base):
    arrays = right()
    for part in arrays:
        arrays[part]["label"] += 1
    with pytest.raises(DataError, match="label: classes begin at 0, not 1: take that off"):
        begin(base, arrays)


@pytest.mark.parametrize("given", [{}, None, [1, 2], {"x": np.zeros((0, 4)), "label": np.zeros(0, int)}])
@pytest.mark.parametrize("base", BASES)
def test_no_rows_and_no_arrays_are_named(base, given):
    with pytest.raises(DataError, match=r"arrays\('train'\): (there are no rows|.* is no dictionary of arrays)"):
        begin(base, {"train": given, "test": given})


@pytest.mark.parametrize("rows", [22, 24])
@pytest.mark.parametrize("base", BASES)
def test_a_number_of_rows_that_is_declared_is_that_of_the_arrays(base, rows):
    with pytest.raises(DataError, match=f"{base.__name__}: N is {rows}, but the arrays of train have 23 rows"):
        begin(base, right(), terms=lambda _: rows)


@pytest.mark.parametrize("base", CLASSIFIERS)
def test_one_row_is_enough(base):
    arrays = {part: {name: array[:1] for name, array in arrays.items()} for part, arrays in right().items()}
    loop = run_loop(begin(base, arrays, batch=1))
    assert loop.runs[0].observer.outcome().metrics["test_error"] in {0, 50, 100}


UNUSUAL = {
    "big-endian": lambda a: a.astype(a.dtype.newbyteorder(">")),
    "strided": lambda a: a[::-1].copy()[::-1],
    "list": lambda a: a.tolist(),
    "tensor": torch.tensor,
    "not masked": np.ma.masked_array,
    **{dtype.__name__: lambda a, t=dtype: a.astype(t) if a.ndim == 1 else a for dtype in (
        np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32, np.uint64)},
    "longdouble": lambda a: a.astype(np.longdouble) if a.ndim == 2 else a,
}  # fmt: skip


@pytest.mark.parametrize("base", CLASSIFIERS)
def test_unusual_arrays_have_the_usual_numbers(base):
    usual = run_loop(begin(base, right())).runs[0].observer.outcome().metrics
    for change in UNUSUAL.values():
        arrays = {
            part: {name: change(array) for name, array in arrays.items() if name != "y"}
            for part, arrays in right().items()
        }
        assert run_loop(begin(base, arrays)).runs[0].observer.outcome().metrics == usual


def test_boolean_labels_are_two_classes():
    arrays = right()
    for part in arrays:
        arrays[part]["label"] = arrays[part]["label"] > 0
    assert begin(Logits, arrays).problem.labels["test"].dtype == torch.int64


def test_numbers_beyond_the_type_of_theta_are_not_finite():
    with pytest.raises(DataError, match=r"x is 1e\+300 at row 3, column 2, not finite in float32"):
        begin(Module, changed("train", "x", with_value(1e300, 3, 2)))


def test_positions_in_images_are_named():
    arrays = right()
    for part in arrays:
        arrays[part]["x"] = np.zeros((len(arrays[part]["label"]), 2, 5, 1))
    arrays["test"]["x"][4, 1, 3, 0] = np.nan
    with pytest.raises(DataError, match=r"x is nan at row 4, column \[1, 3, 0\]"):
        begin(Module, arrays, network=lambda _: Module.network(None), inputs=lambda _, x: x.flatten(1)[:, :4].float())


def test_a_rare_class_may_be_held_out_when_settings_are_tuned():
    arrays = right()
    arrays["train"]["label"] = np.zeros(23, int)
    arrays["train"]["label"][9] = 1
    arrays["test"]["label"][:] = 0
    task = type("Rare", (Logits,), {"given": arrays})()
    problem = task.build([Streams(TUNING_SEED, 0)], "cpu")
    assert problem.labels["test"].tolist() == [1, 0]


class Hidden(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 5), torch.nn.Linear(6, 3)

    def forward(self, x):
        return self.second(self.first(x))


def test_a_model_that_does_not_fit_its_data_is_told_by_layer_and_line():
    arrays = right()
    for part in arrays:
        arrays[part]["x"] = np.hstack([arrays[part]["x"]] * 2)
    line = r".*wrong_arrays\.py, line \d+"
    cases = {
        Module: r"Module\.network fails on x \(2, 8\) float64; the layer Linear\(in_features=4.* gets \(2, 8\)$",
        Logits: rf"Logits\.log_likelihood fails on theta \(1, 12\) .*; x \(1, 16, 8\) {line}",
        Line: rf"Line\.log_likelihood fails on theta \(1, 4\) .*; x \(1, 16, 8\) {line}",
    }
    for base, message in cases.items():
        with pytest.raises(PluginError, match=message) as raised:
            begin(base, arrays)
        assert "RuntimeError" not in str(raised.value)
    with pytest.raises(PluginError, match=r"test_arrays\.py, line \d+: .*the layer Linear\(in_features=6.* \(2, 5\)$"):
        begin(Module, right(), network=lambda _: Network(Hidden))


def test_a_column_of_targets_is_not_broadcast():
    arrays = right()
    arrays["train"]["y"] = arrays["train"]["y"][:, None]
    with pytest.raises(
        PluginError, match=r"y \(1, 16, 1\) float64; ValueError: it returns \(1, 16, 16\), not \(1, n\)"
    ):
        begin(Line, arrays)


def test_a_last_batch_of_one_row_is_tried():
    def normalised(_):
        return Network(lambda: torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 3)))

    assert begin(Module, right(), network=normalised, batch=5)
    with pytest.raises(PluginError, match=r"the energy of 1 rows, the fewest of a batch, .*the layer BatchNorm1d"):
        begin(Module, right(), network=normalised, batch=11)


class Failing(Observer):
    """Fails where its parameter says."""

    def __init__(self, where):
        self.where = where

    def observe(self, draws, weights, steps):
        if self.where == "draw":
            raise KeyError("draw")

    def outcome(self):
        return Outcome({"joint_error": "high" if self.where == "metric" else {}["outcome"]})

    def state(self):
        return {}

    def load(self, state):
        pass


@pytest.mark.parametrize("where", ["draw", "outcome", "metric"])
def test_an_observer_that_fails_does_so_before_the_first_step(where):
    with pytest.raises(
        PluginError, match=r"the observer of Line fails on draws \(2, 2, 4\) float64; .*test_arrays|must be"
    ):
        begin(Line, right(), observer=lambda *_: Failing(where))


def test_a_trial_changes_nothing():
    """The first batch, the running statistics and the draws are those of a run without one."""

    def normalised(_):
        return Network(lambda: torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 3)))

    task = type("Normalised", (Module,), {"given": right(), "network": normalised})()
    fresh = task.build([Streams(0, chain, ("test",)) for chain in range(2)], "cpu")
    tried = begin(Module, right(), network=normalised).problem
    for name, leaf in fresh.state().items():
        assert torch.equal(tried.state()[name], leaf), name
    assert torch.equal(tried.draw_batches(3)["index"], fresh.draw_batches(3)["index"])
