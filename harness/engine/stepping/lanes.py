"""The C++ code of one step: values, the loops that compute them, and their places in memory.

Chains do not interact, so `LANES` of them are one vector in the code; where there is one chain, elements are. A value
that is used once becomes part of the expression that uses it; other values are arrays on the stack. Constants are
arguments of the code, so it depends neither on their values nor on the number of chains. `Unsupported` is raised for
whatever cannot be written.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from harness.engine.stepping.execution_mode import LANES

STACK = 1 << 18
"""Most bytes of values on the stack, of which a thread has 8 MB."""

MOST = 1 << 24
"""Most bytes of the other values, which have memory of their own: far more than this would not fit into any cache."""

BESIDE = 8
"""Most elements of a reduction that are computed side by side, so that no sum waits for another."""

TOGETHER, VECTORS = 8, 2
"""Elements of one chain that are reduced in a vector, and most vectors that are side by side. This needs vectors of so
many elements, otherwise `BESIDE` is faster."""

LONG = 600
"""Number of characters from which an expression becomes an array, so that the code does not double with each use."""

Index = Sequence[str]


class Unsupported(Exception):  # noqa: N818 - nobody made a mistake
    """Something in a step that cannot be written as code."""


class Breach(Unsupported):
    """Something that no step may do, because its code would do something else."""


@dataclass
class Value:
    """A tensor in the code: `at` writes the element of an index. A value in memory also has `element`, by place."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    at: Callable[[Index], str]
    element: Callable[[str], str] | None = None
    cheap: bool = False
    """Whether an element costs at most one read."""

    array: str = ""
    """The name of the array from which elements can be taken by place."""

    fill: Callable[[Value], None] | None = None
    """Writes code that fills an array with all elements, if that is faster than one element after the other."""

    split: Value | None = None
    """The value before its chains and the axis after them were merged into one; this value has no elements then."""

    @property
    def type(self) -> str:
        """The type in C++: V for floating-point numbers, L for integers and truth values."""
        return "V" if self.dtype.is_floating_point else "L"


class Writer:
    """The code so far, from operations that were recorded with `chains` chains (see `recording` and `operations`)."""

    def __init__(self, chains: int) -> None:
        self.chains = chains
        self.lines: list[str] = []
        self.values: dict[int, Value] = {}
        self.constants: list[Tensor] = []
        self.numbers: dict[str, str] = {}
        self.uses: Counter[int] = Counter()
        self.names = self.bytes = self.beyond = 0

    def axis(self, shape: Sequence[int]) -> int | None:
        """Return the axis of the chains, or None if there is none."""
        axes = [a for a, size in enumerate(shape) if size == self.chains]
        if len(axes) > 1:
            raise Unsupported(f"a tensor {tuple(shape)} of {self.chains} chains")
        return axes[0] if axes else None

    def inner(self, shape: Sequence[int]) -> list[int]:
        """Return the shape for one chain."""
        axis = self.axis(shape)
        return [1 if a == axis else size for a, size in enumerate(shape)]

    def name(self, letter: str) -> str:
        """Return a new name."""
        self.names += 1
        return f"{letter}{self.names}"

    def offset(self, shape: Sequence[int], index: Index) -> str:
        """Return the place of an element in memory."""
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
        """Return a value that is in memory."""
        if dtype not in KINDS:
            raise Unsupported(f"{dtype}")
        return Value(tuple(shape), dtype, lambda index: element(self.offset(shape, index)), element, cheap, array)

    def memory(self, shape: Sequence[int], dtype: torch.dtype) -> Value:
        """Return a new array for a value."""
        name, size = self.name("t"), math.prod(self.inner(shape))
        array, bytes_ = self.leaf(shape, dtype, lambda at: f"{name}[{at}]", name), size * LANES * 8
        if self.bytes + bytes_ <= STACK:
            self.bytes += bytes_
            self.lines.append(f"{array.type} {name}[{size}];")
            return array
        elsewhere = f"{array.type}* __restrict const {name} = ({array.type}*)(beyond + {self.beyond});"
        self.beyond += bytes_
        if self.bytes + self.beyond <= STACK * LANES:
            self.lines += ["#if LANES == 1", f"{array.type} {name}[{size}];", "#else", elsewhere, "#endif"]
        else:
            self.lines.append(elsewhere)
        if self.beyond > MOST:
            raise Unsupported(f"more than {MOST} bytes of values")
        return array

    def of(self, given: Any) -> Value:
        """Return the value of an argument, which is a number or a tensor; an unknown tensor is a constant."""
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
                given.shape, given.dtype, lambda at: f"splat({sign}{name}[{at}])", "" if sign else name
            )
        return self.values[id(given)]

    def _number(self, number: float) -> str:
        """Return the code of a number, which is an argument, so that steps with other settings need no compiler.

        Zero and powers of two are written out, because a compiler turns a division by one of them into a product.
        """
        if abs(math.frexp(number)[0]) in {0.0, 0.5}:
            return f"splat({number!r})"
        return self.numbers.setdefault(number.hex(), f"number{len(self.numbers)}")

    def stored(self, value: Value) -> Value:
        """Return the value, put into an array unless an element costs at most one read."""
        if value.split:
            self.stored(value.split)
            return value
        return value if value.cheap else self.dense(value)

    def dense(self, value: Value) -> Value:
        """Return the value in memory, in the order of its axes."""
        if value.element is None or not value.cheap:
            array = self.memory(value.shape, value.dtype)
            if value.fill:
                value.fill(array)
            else:
                with self.loops(value.shape) as index:
                    self.lines.append(f"{array.at(index)} = {value.at(index)};")
            value.at, value.element, value.cheap, value.array = array.at, array.element, True, array.array
        return value

    def last(self, shape: Sequence[int], over: Sequence[int] | None = None) -> int | None:
        """Return the last of the axes over which `loops` loops."""
        looped = (a for a, size in enumerate(self.inner(shape)) if size > 1 and (over is None or a in over))
        return max(looped, default=None)

    @contextmanager
    def loops(self, shape: Sequence[int], over: Sequence[int] | None = None, by: int = 1) -> Iterator[list[str]]:
        """Write loops over the elements, along all axes or some; the index of an axis without a loop is 0.

        The last loop advances `by` elements at a time.
        """
        index, depth, last = [], 0, self.last(shape, over)
        for axis, size in enumerate(self.inner(shape)):
            looped = size > 1 and (over is None or axis in over)
            index.append(self.name("i") if looped else "0")
            if looped:
                depth += 1
                step = by if axis == last else 1
                if over is None and axis == last:
                    self.lines.append("INDEPENDENT")
                self.lines.append(f"for (long {index[-1]} = 0; {index[-1]} < {size}; {index[-1]} += {step}) {{")
            elif size == 0:
                raise Unsupported("an empty tensor")
        yield index
        self.lines.append("}" * depth)

    def cast(self, value: Value, dtype: torch.dtype) -> Value:
        """Return the value as another type."""
        if dtype not in KINDS or value.dtype not in KINDS:
            raise Unsupported(f"{dtype}")
        old, new = KINDS[value.dtype], KINDS[dtype]
        if old == new:
            return value
        return Value(value.shape, dtype, lambda index: f"{new}_of_{old}({value.at(index)})")

    def map(self, shape: Sequence[int], dtype: torch.dtype, write: Callable[..., str], *values: Value) -> Value:
        """Return a value computed element by element from others, which are broadcast."""
        whole = math.prod(self.inner(shape))
        values = tuple(self.stored(v) if math.prod(self.inner(v.shape)) < whole else v for v in values)

        def at(index: Index) -> str:
            return write(*(v.at(broadcast(index, v.shape)) for v in values))

        mapped = Value(tuple(shape), dtype, (lambda i: f"F_of_V({at(i)})") if dtype is torch.float32 else at)
        return self.stored(mapped) if len(at(["i000"] * len(shape))) > LONG else mapped

    def reduce(
        self, value: Value, axes: Sequence[int], start: str, write: Callable[[str, str], str], *, turn: bool = True
    ) -> Value:
        """Return a value reduced over axes, which keep one element.

        turn  whether the elements of the last axis are one after the other in memory
        """
        shape = value.shape
        axes = numbered(axes, shape)
        if self.axis(shape) in axes or value.dtype is torch.float32:
            raise Unsupported("a reduction over chains, or of float32")
        reduced = self.memory([1 if a in axes else size for a, size in enumerate(shape)], value.dtype)
        kept = [a for a in range(len(shape)) if a not in axes]
        last = self.last(shape, kept)
        together = last is not None and shape[last] >= TOGETHER and value.type == "V"
        if together:
            looped = [a for a in axes if self.inner(shape)[a] > 1]
            turned = turn and looped == [self.last(shape)] and shape[looped[0]] >= TOGETHER
            self.lines.append("#if LANES == 1 && __AVX512F__")
            self._reduce_together(value, reduced, axes, start, write, turned=turned)
            self.lines.append("#else")
        beside = 1 if last is None else max(n for n in range(1, BESIDE + 1) if shape[last] % n == 0)
        with self.loops(shape, kept, beside) as outer:
            totals = [self.name("a") for _ in range(beside)]
            places = [[f"({o} + {n})" if n and a == last else o for a, o in enumerate(outer)] for n in range(beside)]
            self.lines.append(f"{reduced.type} {', '.join(f'{total} = {start}' for total in totals)};")
            with self.loops(shape, axes) as within:
                for total, element in zip(totals, places, strict=True):
                    index = [w if a in axes else o for a, (o, w) in enumerate(zip(element, within, strict=True))]
                    self.lines.append(f"{total} = {write(total, value.at(index))};")
            self.lines += [f"{reduced.at(element)} = {total};" for total, element in zip(totals, places, strict=True)]
        if together:
            self.lines.append("#endif")
        return reduced

    def _reduce_together(
        self, value: Value, reduced: Value, axes: Sequence[int], start: str, write: Callable[[str, str], str], *,
        turned: bool,
    ) -> None:  # fmt: skip
        """Write a reduction for one chain, of `TOGETHER` elements of the last axis kept in each vector.

        The last vectors overlap those before, if the number of elements is not a multiple of theirs. If they are
        `turned`, the one axis that is reduced is the last: they are first of elements along it, because these are one
        after the other in memory.
        """
        shape, kept = value.shape, [a for a in range(len(value.shape)) if a not in axes]
        last, along = self.last(shape, kept), self.last(shape)
        assert last is not None
        size, vectors = shape[last], min(VECTORS, -(-shape[last] // TOGETHER))
        step = min(size, vectors * TOGETHER)
        with self.loops(shape, [a for a in kept if a != last]) as outer:
            i, first = self.name("i"), self.name("i")
            self.lines.append(f"for (long {i} = 0; {i} < {size}; {i} += {step}) {{")
            self.lines.append(f"const long {first} = {i} < {size - step} ? {i} : {size - step};")
            totals = {min(v * TOGETHER, step - TOGETHER): self.name("a") for v in range(vectors)}
            self.lines += [f"W {total} = W{{}} + {start};" for total in totals.values()]

            def at(number: int, within: Index) -> str:
                index = [w if a in axes else o for a, (o, w) in enumerate(zip(outer, within, strict=True))]
                index[last] = f"({first} + {number})"
                return value.at(index)

            def vector(elements: Iterable[str]) -> str:
                return f"(W) {{{', '.join(elements)}}}"

            def add(within: Index) -> None:
                for begin, total in totals.items():
                    added = vector(at(begin + n, within) for n in range(TOGETHER))
                    self.lines.append(f"{total} = {write(total, added)};")

            if turned and along is not None:
                whole, k = shape[along] // TOGETHER * TOGETHER, self.name("i")
                self.lines.append(f"for (long {k} = 0; {k} < {whole}; {k} += {TOGETHER}) {{")
                along_it = [[f"({k} + {m})" if a == along else "0" for a in range(len(shape))] for m in range(TOGETHER)]
                for begin, total in totals.items():
                    x = self.name("x")
                    rows = ", ".join(vector(at(begin + n, index) for index in along_it) for n in range(TOGETHER))
                    self.lines.append(f"W {x}[] = {{{rows}}}; turn({x}, {x});")
                    self.lines += [f"{total} = {write(total, f'{x}[{n}]')};" for n in range(TOGETHER)]
                self.lines.append("}")
                for rest in range(whole, shape[along]):
                    add([str(rest) if a == along else "0" for a in range(len(shape))])
            else:
                with self.loops(shape, axes) as within:
                    add(within)
            for begin, total in totals.items():
                index = [f"({first} + {begin})" if a == last else o for a, o in enumerate(outer)]
                self.lines.append(f"store(&{reduced.at(index)}, {total});")
            self.lines.append("}")

    def view(self, value: Value, shape: Sequence[int], back: Callable[[Index], Index]) -> Value:
        """Return the elements of a value in another shape; `back` maps an index to the one in the value."""
        if math.prod(self.inner(shape)) > math.prod(self.inner(value.shape)):
            value = self.stored(value)
        return Value(tuple(shape), value.dtype, lambda index: value.at(back(index)), cheap=value.cheap)

    def reshaped(self, value: Value, shape: Sequence[int]) -> Value:
        """Return the value in another shape, with its elements in the same order."""
        if value.split:
            return value.split if value.split.shape == tuple(shape) else self.reshaped(value.split, shape)
        now, was = self.axis(shape), self.axis(value.shape)
        if now is None and was == 0 and shape[-2:] == value.shape[-2:]:  # for a product of many matrices of each chain
            return Value(tuple(shape), value.dtype, nowhere, split=value)
        if (now is None) != (was is None) or math.prod(shape[:now]) != math.prod(value.shape[:was]):
            raise Unsupported(f"{value.shape} viewed as {tuple(shape)}")
        long = [[a for a, size in enumerate(self.inner(s)) if size > 1] for s in (value.shape, shape)]
        if [value.shape[a] for a in long[0]] == [shape[a] for a in long[1]]:  # axes of one element are added or removed
            came = dict(zip(*long, strict=True))
            return self.view(
                value, shape, lambda index: [index[came[a]] if a in came else "0" for a in range(len(value.shape))]
            )
        value = self.dense(value)
        assert value.element is not None
        return self.leaf(shape, value.dtype, value.element, value.array)


KINDS = {torch.float64: "V", torch.float32: "F", torch.int64: "L", torch.int32: "L", torch.bool: "B"}


def nowhere(_: Index) -> str:
    """Raise `Unsupported`, because a value that is split has no elements."""
    raise Unsupported("chains and another axis as one")


def broadcast(index: Index, shape: Sequence[int]) -> Index:
    """Return the index in a tensor that is broadcast."""
    return ["0" if size == 1 else i for i, size in zip(index[len(index) - len(shape) :], shape, strict=True)]


def numbered(axes: Sequence[int] | int | None, shape: Sequence[int]) -> list[int]:
    """Return axes as numbers from 0; None means all axes."""
    axes = [axes] if isinstance(axes, int) else axes
    return sorted(a % len(shape) for a in axes) if axes else list(range(len(shape)))
