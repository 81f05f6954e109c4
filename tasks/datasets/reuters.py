"""395 Reuters articles as counts of 4,258 terms, the data that comes with the package lda.

Licence: MPL-2.0. The articles are a part of Reuters-21578. A line of the file is a document, `M term:count ...`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from harness import DataError
from harness.tasks import DataFile, locate

if TYPE_CHECKING:
    from numpy.typing import NDArray

REUTERS = DataFile(
    "reuters", "reuters/reuters.ldac", "4bfe5b21ed263334ddf7af56f7b38632f6ccae7d9441c8b56071167841e71b5e", 375_693,
    ("https://raw.githubusercontent.com/lda-project/lda/develop/lda/tests/reuters.ldac",),
    "MPL-2.0 (lda-project/lda); a part of Reuters-21578",
)  # fmt: skip


def tokens(file: DataFile) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The document and the term of each word (T,), in the order of the file; `DataError` where it is not what it says.

    The order of words within a document is not in the file: equal terms stand together.
    """
    path = locate(file)
    rows = []
    for line, text in enumerate(path.read_text().splitlines()):
        count, *pairs = text.split()
        if int(count) != len(pairs):
            raise DataError(f"data set {file.dataset}: {path}: line {line + 1} has {len(pairs)} terms, not {count}")
        rows += [(line, *map(int, pair.split(":"))) for pair in pairs]
    document, term, count = np.array(rows).T
    return np.repeat(document, count), np.repeat(term, count)
