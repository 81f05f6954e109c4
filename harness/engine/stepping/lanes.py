"""The code of one step in C++: values, the loops that make them, and where they are in memory.

Chains do not interact, so that `LANES` of them are one number of the code. A value used once becomes part of the
expression that uses it; the others are arrays on the stack. Constants are arguments of the code: it depends on neither
their values nor the number of chains. `Unsupported` is raised for whatever cannot be written; the caller has another
way.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

LANES = 8
"""Chains of a vector at most: the float64 numbers of the widest registers."""

STACK = 1 << 18
"""Most bytes of values on the stack; of a thread's it is 8 MB."""

MOST = 1 << 24
"""Most bytes of the others, which are in memory of their own: far more than this is beyond all caches."""

BESIDE = 8
"""Elements of a reduction that are computed side by side, at most: no sum of them waits for another."""

LONG = 600
"""Characters from which an expression becomes an array, so that the code does not double with each use."""

Index = Sequence[str]


class Unsupported(Exception):  # noqa: N818 - not a mistake of anybody's
    """Something in a step that cannot be written."""


class Breach(Unsupported):
    """What no step may do, so that its code would not be what it does."""


@dataclass
class Value:
    """A tensor in the code: `at` is the expression of an element. In memory it has an `element` by its place."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    at: Callable[[Index], str]
    element: Callable[[str], str] | None = None
    cheap: bool = False
    """Whether an element takes no more than one read."""

    array: str = ""
    """What elements can be taken from by their place."""

    fill: Callable[[Value], None] | None = None
    """Writes what fills an array with all elements, where that takes less than one after the other."""

    split: Value | None = None
    """What this is, where the chains and an axis behind them have become one; it has no elements of its own."""

    @property
    def type(self) -> str:
        """V: floating-point numbers; L: integers and truth values."""
        return "V" if self.dtype.is_floating_point else "L"


class Writer:
    """The code so far, of operations that were recorded with `chains` chains (see `recording` and `operations`)."""

    def __init__(self, chains: int) -> None:
        self.chains = chains
        self.lines: list[str] = []
        self.values: dict[int, Value] = {}
        self.constants: list[Tensor] = []
        self.numbers: dict[str, str] = {}
        self.uses: Counter[int] = Counter()
        self.names = self.bytes = self.beyond = 0

    def axis(self, shape: Sequence[int]) -> int | None:
        """Which axis is that of the chains."""
        axes = [a for a, size in enumerate(shape) if size == self.chains]
        if len(axes) > 1:
            raise Unsupported(f"a tensor {tuple(shape)} of {self.chains} chains")
        return axes[0] if axes else None

    def inner(self, shape: Sequence[int]) -> list[int]:
        """The shape for one chain."""
        axis = self.axis(shape)
        return [1 if a == axis else size for a, size in enumerate(shape)]

    def name(self, letter: str) -> str:
        """A new name."""
        self.names += 1
        return f"{letter}{self.names}"

    def place(self, shape: Sequence[int], index: Index) -> str:
        """Where an element is in memory."""
        terms, stride = [], 1
        for size, i in zip(reversed(self.inner(shape)), reversed(index), strict=True):
            if size > 1 and i != "0":
                terms.append(f"{i} * {stride}" if stride > 1 else i)
            stride *= size
        return " + ".join(terms) or "0"

    def leaf(
        self, shape: Sequence[int], dtype: torch.dtype, element: Callable[[str], str], array: str = "", *,
        cheap: bool = True,
    ) -> Value:  # fmt: skip
        """A value in memory."""
        if dtype not in KINDS:
            raise Unsupported(f"{dtype}")
        return Value(tuple(shape), dtype, lambda index: element(self.place(shape, index)), element, cheap, array)

    def memory(self, shape: Sequence[int], dtype: torch.dtype) -> Value:
        """An array for a value."""
        name, size = self.name("t"), math.prod(self.inner(shape))
        made, bytes_ = self.leaf(shape, dtype, lambda place: f"{name}[{place}]", name), size * LANES * 8
        if self.bytes + bytes_ <= STACK:
            self.bytes += bytes_
            self.lines.append(f"{made.type} {name}[{size}];")
            return made
        self.lines.append(f"{made.type}* __restrict const {name} = ({made.type}*)(beyond + {self.beyond});")
        self.beyond += bytes_
        if self.beyond > MOST:
            raise Unsupported(f"more than {MOST} bytes of values")
        return made

    def of(self, given: Any) -> Value:
        """The value of an argument: a tensor, unknown ones are constants, or a number."""
        if not isinstance(given, Tensor):
            kind = {bool: torch.bool, int: torch.int64, float: torch.float64}[type(given)]
            whole = -given if kind is torch.bool else given
            written = self._number(given) if kind is torch.float64 else f"splat({whole}L)"
            return Value((), kind, lambda _: written, cheap=True)
        if id(given) not in self.values:
            if self.chains in given.shape:
                raise Unsupported(f"an array {tuple(given.shape)}")
            name, sign = f"k{len(self.constants)}", "-" if given.dtype is torch.bool else ""
            self.constants.append(given)
            self.values[id(given)] = self.leaf(
                given.shape, given.dtype, lambda place: f"splat({sign}{name}[{place}])", "" if sign else name
            )
        return self.values[id(given)]

    def _number(self, number: float) -> str:
        """A number of the step. It is an argument of the code, so that steps with other settings need no compiler.

        Zero and powers of two are written out: a compiler turns a division by one of them into a product.
        """
        if abs(math.frexp(number)[0]) in {0.0, 0.5}:
            return f"splat({number!r})"
        return self.numbers.setdefault(number.hex(), f"number{len(self.numbers)}")

    def stored(self, value: Value) -> Value:
        """The value in an array, if it takes more than a read."""
        if value.split:
            self.stored(value.split)
            return value
        return value if value.cheap else self.dense(value)

    def dense(self, value: Value) -> Value:
        """The value in memory in the order of its axes."""
        if value.element is None or not value.cheap:
            made = self.memory(value.shape, value.dtype)
            if value.fill:
                value.fill(made)
            else:
                with self.loops(value.shape) as index:
                    self.lines.append(f"{made.at(index)} = {value.at(index)};")
            value.at, value.element, value.cheap, value.array = made.at, made.element, True, made.array
        return value

    def last(self, shape: Sequence[int], over: Sequence[int] | None = None) -> int | None:
        """The last axis of those that `loops` goes along."""
        looped = (a for a, size in enumerate(self.inner(shape)) if size > 1 and (over is None or a in over))
        return max(looped, default=None)

    @contextmanager
    def loops(self, shape: Sequence[int], over: Sequence[int] | None = None, by: int = 1) -> Iterator[list[str]]:
        """Loops over the elements, along all axes or some; the index of an axis without a loop is 0.

        The last loop advances `by` elements at a time.
        """
        index, depth, last = [], 0, self.last(shape, over)
        for axis, size in enumerate(self.inner(shape)):
            looped = size > 1 and (over is None or axis in over)
            index.append(self.name("i") if looped else "0")
            if looped:
                depth += 1
                step = by if axis == last else 1
                self.lines.append(f"for (long {index[-1]} = 0; {index[-1]} < {size}; {index[-1]} += {step}) {{")
            elif size == 0:
                raise Unsupported("an empty tensor")
        yield index
        self.lines.append("}" * depth)

    def cast(self, value: Value, dtype: torch.dtype) -> Value:
        """The value as another type."""
        if dtype not in KINDS or value.dtype not in KINDS:
            raise Unsupported(f"{dtype}")
        old, new = KINDS[value.dtype], KINDS[dtype]
        if old == new:
            return value
        return Value(value.shape, dtype, lambda index: f"{new}_of_{old}({value.at(index)})")

    def map(self, shape: Sequence[int], dtype: torch.dtype, write: Callable[..., str], *values: Value) -> Value:
        """A value made element by element of others, which are broadcast."""
        whole = math.prod(self.inner(shape))
        values = tuple(self.stored(v) if math.prod(self.inner(v.shape)) < whole else v for v in values)

        def at(index: Index) -> str:
            return write(*(v.at(broadcast(index, v.shape)) for v in values))

        made = Value(tuple(shape), dtype, (lambda i: f"F_of_V({at(i)})") if dtype is torch.float32 else at)
        return self.stored(made) if len(at(["i000"] * len(shape))) > LONG else made

    def reduce(self, value: Value, axes: Sequence[int], start: str, write: Callable[[str, str], str]) -> Value:
        """A value reduced over axes, which stay with one element."""
        shape = value.shape
        axes = numbered(axes, shape)
        if self.axis(shape) in axes or value.dtype is torch.float32:
            raise Unsupported("a reduction over chains, or of float32")
        made = self.memory([1 if a in axes else size for a, size in enumerate(shape)], value.dtype)
        kept = [a for a in range(len(shape)) if a not in axes]
        last = self.last(shape, kept)
        beside = 1 if last is None else max(n for n in range(1, BESIDE + 1) if shape[last] % n == 0)
        with self.loops(shape, kept, beside) as outer:
            totals = [self.name("a") for _ in range(beside)]
            places = [[f"({o} + {n})" if n and a == last else o for a, o in enumerate(outer)] for n in range(beside)]
            self.lines.append(f"{made.type} {', '.join(f'{total} = {start}' for total in totals)};")
            with self.loops(shape, axes) as within:
                for total, place in zip(totals, places, strict=True):
                    index = [w if a in axes else o for a, (o, w) in enumerate(zip(place, within, strict=True))]
                    self.lines.append(f"{total} = {write(total, value.at(index))};")
            self.lines += [f"{made.at(place)} = {total};" for total, place in zip(totals, places, strict=True)]
        return made

    def view(self, value: Value, shape: Sequence[int], back: Callable[[Index], Index]) -> Value:
        """The elements of a value in another shape; `back` leads from an index to that in the value."""
        if math.prod(self.inner(shape)) > math.prod(self.inner(value.shape)):
            value = self.stored(value)
        return Value(tuple(shape), value.dtype, lambda index: value.at(back(index)), cheap=value.cheap)

    def reshaped(self, value: Value, shape: Sequence[int]) -> Value:
        """The value in another shape, in the order of its elements."""
        if value.split:
            return value.split if value.split.shape == tuple(shape) else self.reshaped(value.split, shape)
        now, was = self.axis(shape), self.axis(value.shape)
        if now is None and was == 0 and shape[-2:] == value.shape[-2:]:  # for a product of many matrices of each chain
            return Value(tuple(shape), value.dtype, nowhere, split=value)
        if (now is None) != (was is None) or math.prod(shape[:now]) != math.prod(value.shape[:was]):
            raise Unsupported(f"{value.shape} viewed as {tuple(shape)}")
        long = [[a for a, size in enumerate(self.inner(s)) if size > 1] for s in (value.shape, shape)]
        if [value.shape[a] for a in long[0]] == [shape[a] for a in long[1]]:  # axes of one element come or go
            came = dict(zip(*long, strict=True))
            return self.view(
                value, shape, lambda index: [index[came[a]] if a in came else "0" for a in range(len(value.shape))]
            )
        value = self.dense(value)
        assert value.element is not None
        return self.leaf(shape, value.dtype, value.element, value.array)


KINDS = {torch.float64: "V", torch.float32: "F", torch.int64: "L", torch.int32: "L", torch.bool: "B"}


def nowhere(_: Index) -> str:
    """The place of an element of a value that is split."""
    raise Unsupported("chains and another axis as one")


def broadcast(index: Index, shape: Sequence[int]) -> Index:
    """The index in a tensor that is broadcast."""
    return ["0" if size == 1 else i for i, size in zip(index[len(index) - len(shape) :], shape, strict=True)]


def numbered(axes: Sequence[int] | int | None, shape: Sequence[int]) -> list[int]:
    """Axes as numbers from 0; none are all."""
    axes = [axes] if isinstance(axes, int) else axes
    return sorted(a % len(shape) for a in axes) if axes else list(range(len(shape)))
