"""Sums and counts over all draws, in C++ (`counting.cpp`)."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np

from harness.analysis.diagnostics.arrays import Array
from harness.system.cpp import compiled

SOURCE = Path(__file__).with_suffix(".cpp")
LANES = 8
TOGETHER = 4
"""Number of directions that the C++ code computes together."""


def code() -> Any:
    """Return the compiled functions, or None if there is no compiler or it fails."""
    return compiled(SOURCE)


def steps(array: Array) -> tuple[int, ...]:
    """Return the strides of an array of float64, in numbers instead of bytes."""
    return tuple(stride // array.itemsize for stride in array.strides)


def call(function: Any, *arguments: Any) -> int:
    """Call a compiled function with arrays, whole numbers and floats; None stands for no array."""
    return int(function(*map(_argument, arguments)))


def _argument(value: Any) -> Any:
    if value is None or isinstance(value, np.ndarray):
        return ctypes.c_void_p(None if value is None else value.ctypes.data)
    return ctypes.c_double(value) if isinstance(value, float) else ctypes.c_long(value)
