"""Data as users have it: what becomes arrays, and what is refused by name before anything runs."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

from harness import UsageError
from plugins.modelling import arrays

X = np.arange(12, dtype=np.float64).reshape(6, 2)
Y = np.array([0, 1, 0, 1, 0, 1])


class Augmented(Dataset):
    """Rows that differ each time they are read."""

    def __len__(self):
        return 6

    def __getitem__(self, k):
        return torch.rand(2), int(Y[k])


class Endless:
    """No rows to count."""

    def __iter__(self):
        return iter([])


def read(given):
    said = []
    x, y = arrays.read(given, "train", said.append)
    return x, y, said


def files(folder):
    """The same data in every form of a file."""
    np.savez(folder / "a.npz", x=X, y=Y)
    table = "\n".join(f"{a},{b},{c}" for (a, b), c in zip(X, Y, strict=True))
    (folder / "plain.csv").write_text(table)
    (folder / "headed.csv").write_text(f"a,b,class\n{table}\n")
    return [folder / "a.npz", str(folder / "plain.csv"), folder / "headed.csv"]


def test_every_form_gives_the_same_arrays(tmp_path):
    pairs = TensorDataset(torch.tensor(X), torch.tensor(Y))
    forms = [
        (X, Y),
        [torch.tensor(X), Y.tolist()],
        pairs,
        DataLoader(pairs, batch_size=4, shuffle=True),
        *files(tmp_path),
    ]
    for form in [*forms, (X.astype(">f8"), Y.astype(">i8")), (X[::-1][::-1], Y)]:
        x, y, said = read(form)
        assert x.dtype == np.float32
        assert x.flags.c_contiguous
        assert x.dtype.isnative
        assert y.dtype.isnative
        assert np.array_equal(x, X)
        assert np.array_equal(y, Y)
        assert y.dtype.kind == "i"
        assert not said


def test_a_collate_function_of_a_loader_is_used():
    def join(rows):
        return torch.stack([x for x, _ in rows]) + 1, torch.tensor([int(y) for _, y in rows])

    loader = DataLoader(TensorDataset(torch.tensor(X), torch.tensor(Y)), collate_fn=join)
    assert np.array_equal(read(loader)[0], X + 1)


def test_random_transforms_are_said_to_be_read_once():
    *_, said = read(Augmented())
    assert said == [
        "note: train: rows differ each time they are read; they are read once, without further augmentation"
    ]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((X, Y[:5]), "train: x has 6 rows and y has 5"),
        ((X, Y, Y), "train has 3 parts"),
        ((X[:0], Y[:0]), "train x is not an array of numbers"),
        ((np.where(X == 3, np.nan, X), Y), r"train x has 1 values that are not finite, the first at \[1, 1\]"),
        ((X, np.where(Y == 1, np.inf, Y)), "train y has 3 values that are not finite"),
        ((X.astype(object), Y), "train x is not an array of numbers .*: object"),
        ((X, ["a"] * 6), "train y is not an array of numbers"),
        (([[1.0], [1.0, 2.0]], Y[:2]), "train x is not an array"),
        ((np.ma.masked_equal(X, 3), Y), "train x has masked values"),
        ((X * 1j, Y), "complex"),
        (Endless(), "train is a Endless without rows"),
        (DataLoader(TensorDataset(torch.tensor(X))), "train has 1 parts"),
        (torch.tensor(X), "not a pair"),
        (7, "train is a int without rows"),
        ("missing.csv", "missing.csv cannot be read"),
        ("data.parquet", "train is .*data.parquet; give a pair"),
    ],
)
def test_other_data_is_refused_by_name(given, words):
    with pytest.raises(UsageError, match=words):
        read(given)


@pytest.mark.parametrize(
    ("text", "words"),
    [("a,b\nx,1\n", "empty cells are in: a"), ("a,b\n1,\n2,3\n", "are in: b"), ("1\n2\n", "not a table")],
)
def test_a_table_with_texts_or_gaps_names_its_columns(tmp_path, text, words):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(UsageError, match=words):
        read(tmp_path / "t.csv")


def test_an_archive_without_x_and_y_is_refused(tmp_path):
    np.savez(tmp_path / "t.npz", images=X)
    with pytest.raises(UsageError, match="cannot be read"):
        read(tmp_path / "t.npz")


def test_large_data_is_refused_before_it_is_read(monkeypatch):
    monkeypatch.setattr(arrays.user_files, "MOST_BYTES", 100)
    with pytest.raises(UsageError, match="GiB as arrays"):
        read(TensorDataset(torch.tensor(X), torch.tensor(Y)))


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "uint16", "bool"])
def test_classes_of_any_whole_type_are_accepted(kind):
    y = arrays.classes(Y.astype(kind), "classification", "train")
    assert y.dtype == np.int64
    assert np.array_equal(y, Y)


@pytest.mark.parametrize(
    ("y", "likelihood", "words"),
    [
        (Y.astype(np.float32), "classification", r"train y is float32 \(6,\); classification needs classes"),
        (Y[:, None], "classification", r"int64 \(6, 1\); classification needs .* as integers \(n,\)"),
        (np.eye(2, dtype=int)[Y], "classification", r"\(6, 2\)"),
        (Y, "token", r"as integers \(n, positions\)"),
        (Y - 1, "classification", "train y has the class -1"),
        (Y[:, None] - 1, "token", "train y has the class -1"),
    ],
)
def test_labels_that_are_no_classes_are_refused_by_name(y, likelihood, words):
    with pytest.raises(UsageError, match=words):
        arrays.classes(y, likelihood, "train")


def test_padding_of_tokens_is_kept():
    assert arrays.classes(np.array([[0, -100]]), "token", "train").tolist() == [[0, -100]]


def test_inputs_without_labels_may_be_an_array_or_a_set():
    for form in (X, torch.tensor(X), (X, Y), TensorDataset(torch.tensor(X), torch.tensor(Y))):
        assert np.array_equal(arrays.inputs(form, "unseen", print), X)
