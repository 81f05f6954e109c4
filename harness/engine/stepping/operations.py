"""The code of each torch operation in a step: functions of the writer, the results and the arguments."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from harness.engine.stepping.lanes import KINDS, Index, Unsupported, Value, Writer, broadcast, nowhere, numbered

Operation = Callable[..., Value | list[Value]]


def _pointwise(write: Callable[..., str], *, compares: bool = False, truth: bool = False) -> Operation:
    """Return an operation on elements in the type of the result or, if it compares, in the common type of its operands.

    `truth` says whether it works on truth values; otherwise they become integers, and the result a truth value again.
    """

    def operation(w: Writer, outs: list[Tensor], *given: Any, alpha: Any = 1, **others: Any) -> Value:
        if any(option is not None for option in others.values()):
            raise Unsupported(f"{others}")
        (out,) = outs
        kind = torch.result_type(*given) if compares else out.dtype
        if kind is torch.bool and not truth:
            kind = torch.int64  # as a truth value, true is -1 and would be the smaller one
        values = [w.cast(w.of(leaf), kind) for leaf in given]
        if alpha != 1:
            values[1] = w.map(values[1].shape, kind, "({} * {})".format, values[1], w.cast(w.of(alpha), kind))
        return w.map(out.shape, out.dtype if compares else kind, write, *values)

    return operation


def _power(w: Writer, outs: list[Tensor], x: Any, exponent: Any) -> Value:
    value = w.cast(w.of(x), outs[0].dtype)
    written = {2: "({0} * {0})", 3: "({0} * {0} * {0})", 0.5: "root({0})", -1: "(1.0 / {0})", -0.5: "(1.0 / root({0}))"}
    if isinstance(exponent, (int, float)) and exponent in written:
        return w.map(outs[0].shape, outs[0].dtype, written[exponent].format, w.stored(value))
    return _pointwise("power({}, {})".format)(w, outs, x, exponent)  # type: ignore[return-value]


def _where(w: Writer, outs: list[Tensor], chosen: Tensor, a: Any, b: Any) -> Value:
    kind = outs[0].dtype
    values = w.cast(w.of(chosen), torch.bool), w.cast(w.of(a), kind), w.cast(w.of(b), kind)
    return w.map(outs[0].shape, kind, "where({}, {}, {})".format, *values)


def _clamp(w: Writer, outs: list[Tensor], x: Tensor, low: Any = None, high: Any = None, **named: Any) -> Value:
    low, high = named.get("min", low), named.get("max", high)
    value, kind = w.cast(w.of(x), outs[0].dtype), outs[0].dtype
    for limit, write in ((low, "largest({}, {})"), (high, "smallest({}, {})")):
        if limit is not None:
            value = w.map(outs[0].shape, kind, write.format, value, w.cast(w.of(limit), kind))
    return value


def _reduction(start: str, write: Callable[[str, str], str], *, kind: torch.dtype | None = None) -> Operation:
    def operation(w: Writer, outs: list[Tensor], x: Tensor, axes: Any = None, *_: Any, **named: Any) -> Value:
        axes = numbered(named.get("dim", axes), x.shape)
        value = w.cast(w.of(x), kind or outs[0].dtype)
        if value.type == "L" and "INFINITE" in start:
            raise Unsupported("extremes of integers")
        reduced = w.reduce(value, axes, start if value.type == "V" else start.replace(".0", "L"), write)
        return w.reshaped(reduced, outs[0].shape)

    return operation


def _mean(w: Writer, outs: list[Tensor], x: Tensor, axes: Any = None, *_: Any, **__: Any) -> Value:
    total = KNOWN["sum"](w, outs, x, axes)
    assert isinstance(total, Value)
    return w.map(outs[0].shape, outs[0].dtype, "({} / {})".format, total, w.of(float(x.numel() // outs[0].numel())))


def _cumsum(w: Writer, outs: list[Tensor], x: Tensor, axis: int, **_: Any) -> Value:
    (axis,) = numbered(axis, x.shape)
    if w.axis(x.shape) == axis:
        raise Unsupported("a sum over chains")
    value, sums = w.cast(w.of(x), outs[0].dtype), w.memory(x.shape, outs[0].dtype)
    with w.loops(x.shape, [a for a in range(x.ndim) if a != axis]) as outer:
        total = w.name("a")
        w.lines.append(f"{sums.type} {total} = {sums.type}{{}};")
        with w.loops(x.shape, [axis]) as within:
            index = [within[a] if a == axis else i for a, i in enumerate(outer)]
            w.lines.append(f"{sums.at(index)} = {total} = {total} + {value.at(index)};")
    return sums


def _product(w: Writer, outs: list[Tensor], a: Tensor, b: Tensor) -> Value:
    """Write products of matrices, with the sums in the order of the elements."""
    if (left := w.of(a).split) and (right := w.of(b).split):
        products = _matrices(w, left, right, [*left.shape[:-1], right.shape[-1]])
        return Value(tuple(outs[0].shape), outs[0].dtype, nowhere, split=products)
    return _matrices(w, w.of(a), w.of(b), outs[0].shape)


def _matrices(w: Writer, left: Value, right: Value, out: Sequence[int]) -> Value:
    """Write one product, or one for each place on the axes before the last two."""
    write = "({} * {})".format
    terms = Value(
        (*out, left.shape[-1]), left.dtype,
        lambda i: write(
            left.at(broadcast([*i[:-2], i[-1]], left.shape)), right.at(broadcast([*i[:-3], i[-1], i[-2]], right.shape))
        ),
    )  # fmt: skip
    w.stored(left)
    w.stored(right)
    return w.reshaped(w.reduce(terms, [-1], "splat(0.0)", "{} + {}".format, turn=False), out)


def _cat(w: Writer, outs: list[Tensor], parts: Sequence[Tensor], axis: int = 0) -> Value:
    parts = [part for part in parts if part.numel()]
    (axis,) = numbered(axis, outs[0].shape)
    if w.axis(outs[0].shape) != w.axis(parts[0].shape) or w.axis(parts[0].shape) == axis:
        raise Unsupported("chains put together")
    values = [w.cast(w.of(part), outs[0].dtype) for part in parts]
    whole, start = w.memory(outs[0].shape, outs[0].dtype), 0
    for value in values:
        with w.loops(value.shape) as index:
            shifted = [f"({i} + {start})" if a == axis else i for a, i in enumerate(index)]
            w.lines.append(f"{whole.at(shifted)} = {value.at(index)};")
        start += value.shape[axis]
    return whole


def _select(w: Writer, outs: list[Tensor], x: Tensor, axis: int, at: int) -> Value:
    (axis,) = numbered(axis, x.shape)
    if w.axis(x.shape) == axis:
        raise Unsupported("one of the chains")
    at %= x.shape[axis]
    return w.view(w.of(x), outs[0].shape, lambda index: [*index[:axis], str(at), *index[axis:]])


def _slice(
    w: Writer, outs: list[Tensor], x: Tensor, axis: int = 0, start: Any = 0, _: Any = None, step: int = 1
) -> Value:
    (axis,) = numbered(axis, x.shape)
    start = min(max(start + x.shape[axis] if (start or 0) < 0 else start or 0, 0), x.shape[axis])
    if outs[0].shape == x.shape:
        return w.of(x)
    if w.axis(x.shape) == axis:
        raise Unsupported("some of the chains")
    return w.view(w.of(x), outs[0].shape, lambda i: [*i[:axis], f"({i[axis]} * {step} + {start})", *i[axis + 1 :]])


def _permute(w: Writer, outs: list[Tensor], x: Tensor, order: Sequence[int]) -> Value:
    order = [a % x.ndim for a in order]
    return w.view(w.of(x), outs[0].shape, lambda index: [index[order.index(a)] for a in range(x.ndim)])


def _transpose(w: Writer, outs: list[Tensor], x: Tensor, a: int = 0, b: int = 1) -> Value:
    order = list(range(x.ndim))
    if x.ndim > 1:
        order[a], order[b] = order[b], order[a]
    return _permute(w, outs, x, order)


def _diagonal(w: Writer, outs: list[Tensor], x: Tensor, offset: int = 0, a: int = 0, b: int = 1) -> Value:
    a, b = a % x.ndim, b % x.ndim
    if offset or w.axis(x.shape) in (a, b):
        raise Unsupported("a diagonal")

    def back(index: Index) -> Index:
        given = iter(index)
        return [index[-1] if axis in (a, b) else next(given) for axis in range(x.ndim)]

    return w.view(w.of(x), outs[0].shape, back)


def _expand(w: Writer, outs: list[Tensor], x: Tensor, *_: Any, **__: Any) -> Value:
    return w.view(w.of(x), outs[0].shape, lambda index: broadcast(index, x.shape))


def _same(w: Writer, outs: list[Tensor], x: Tensor, *_: Any, **__: Any) -> Value:  # noqa: ARG001
    return w.of(x)


def _reshape(w: Writer, outs: list[Tensor], x: Tensor, *_: Any, **__: Any) -> Value:
    return w.reshaped(w.of(x), outs[0].shape)


def _filled(number: float | None) -> Operation:
    """Return an operation that makes a tensor of one number: the given one, or the last argument."""

    def operation(w: Writer, outs: list[Tensor], *given: Any, **named: Any) -> Value:
        filling = named.get("fill_value", given[-1] if given else None) if number is None else number
        value = w.cast(w.of(filling), outs[0].dtype)
        return Value(tuple(outs[0].shape), outs[0].dtype, lambda _: value.at(()), cheap=True)

    return operation


def _arange(w: Writer, outs: list[Tensor], *bounds: Any, **_: Any) -> Value:
    start, step = bounds[0] if len(bounds) > 1 else 0, bounds[2] if len(bounds) > 2 else 1
    if w.axis(outs[0].shape) is not None:
        raise Unsupported("the numbers of the chains")
    first, by = (w.cast(w.of(number), outs[0].dtype).at(()) for number in (start, step))
    kind = KINDS[outs[0].dtype]
    write = "({1} + {2} * V_of_L(splat((long)({0}))))" if kind == "V" else "({1} + {2} * splat((long)({0})))"
    return Value(tuple(outs[0].shape), outs[0].dtype, lambda index: write.format(index[0], first, by))


def _eye(w: Writer, outs: list[Tensor], *_: Any, **__: Any) -> Value:
    if w.axis(outs[0].shape) is not None:
        raise Unsupported("a matrix over chains")
    one = w.cast(Value((), torch.bool, lambda _: "same"), outs[0].dtype).at(())
    return Value(
        tuple(outs[0].shape), outs[0].dtype, lambda i: one.replace("same", f"splat(-(long)(({i[0]}) == ({i[1]})))")
    )


def _gather(w: Writer, outs: list[Tensor], x: Tensor, axis: int, index: Tensor, **_: Any) -> Value:
    (axis,) = numbered(axis, x.shape)
    return _taken(w, outs, x, axis, index, lambda i: i, lambda i: i)


def _index(w: Writer, outs: list[Tensor], x: Tensor, indices: Sequence[Tensor | None]) -> Value:
    """Write x[:, ..., index], with one index on an axis; the axes of the index take its place."""
    given = [(axis, index) for axis, index in enumerate(indices) if index is not None]
    if len(given) != 1 or given[0][1].dtype is not torch.int64:
        raise Unsupported("an index of several tensors, or of truth values")
    ((axis, index),) = given
    n = index.ndim
    return _taken(
        w, outs, x, axis, index, lambda i: i[axis : axis + n], lambda i: [*i[:axis], "0", *i[axis + n :]],
        behind=x.ndim - axis - 1,
    )  # fmt: skip


def _taken(
    w: Writer, outs: list[Tensor], x: Tensor, axis: int, index: Tensor,
    which: Callable[[Index], Index], where: Callable[[Index], Index], *, behind: int = 0,
) -> Value:  # fmt: skip
    """Write the elements of x at the places of an index along an axis; negative ones count from the end.

    behind  the number of axes after those of the index, as in x
    """
    if w.axis(x.shape) == axis:
        raise Unsupported("an index of chains")
    source, chosen = w.of(x), w.stored(w.of(index))
    if not source.array:
        source = w.dense(Value(source.shape, source.dtype, source.at))
    stride, size = math.prod(w.inner(x.shape)[axis + 1 :]), x.shape[axis]

    def arguments(index_: Index) -> str:
        base = w.offset(x.shape, ["0" if a == axis else i for a, i in enumerate(where(index_))])
        return f"{source.array} + {base}, within({chosen.at(which(index_))}, {size}) * {stride}"

    def fill(array: Value) -> None:
        with w.loops(array.shape, range(len(array.shape) - behind)) as index_:
            to = f"{array.array} + {w.offset(array.shape, index_)}"
            w.lines.append(f"take_row<{stride}>({arguments(index_)}, {to});")

    rows = behind and stride > 1 and source.array.startswith("k") and source.type == "V"
    shape = tuple(outs[0].shape)
    return Value(shape, outs[0].dtype, lambda index_: f"take({arguments(index_)})", fill=fill if rows else None)


def _extreme(reduced: str, paired: str) -> Operation:
    """Return max or min: of all elements, of two tensors, or along an axis, with the places if they are used."""

    def operation(w: Writer, outs: list[Tensor], x: Tensor, other: Any = None, *_: Any) -> Value | list[Value]:
        if isinstance(other, Tensor):
            return KNOWN[paired](w, outs, x, other)
        if len(outs) > 1 and w.uses[id(outs[1])]:
            return _placed(w, outs, x, other, ">" if reduced == "amax" else "<")
        top = KNOWN[reduced](w, outs[:1], x, other)
        return [top, *(Value(tuple(out.shape), out.dtype, lambda _: "") for out in outs[1:])]  # type: ignore[list-item]

    return operation


def _placed(w: Writer, outs: list[Tensor], x: Tensor, axis: int, sign: str) -> list[Value]:
    """Write the extremes along an axis, and the first place of each; NaN is both the largest and the smallest."""
    (axis,) = numbered(axis, x.shape)
    if w.axis(x.shape) == axis:
        raise Unsupported("an extreme of chains")
    value = w.dense(w.cast(w.of(x), torch.float64))
    shape = [1 if a == axis else size for a, size in enumerate(x.shape)]
    tops, places = w.memory(shape, torch.float64), w.memory(shape, torch.int64)
    with w.loops(x.shape, [a for a in range(x.ndim) if a != axis]) as outer:
        top, position = w.name("a"), w.name("a")
        w.lines.append(f"V {top} = {value.at(outer)}; L {position} = splat(0L);")
        with w.loops(x.shape, [axis]) as within:
            i = within[axis]
            element = value.at([i if a == axis else o for a, o in enumerate(outer)])
            w.lines.append(
                f"const V v = {element}; const L m = truth(v {sign} {top}) | (truth(v != v) & truth({top} == {top}));"
            )
            w.lines.append(f"{top} = where(m, v, {top}); {position} = where(m, splat((long){i}), {position});")
        w.lines.append(f"{tops.at(outer)} = {top}; {places.at(outer)} = {position};")
    return [w.reshaped(extreme, out.shape) for extreme, out in zip((tops, places), outs, strict=True)]


def _argument(sign: str) -> Operation:
    def operation(w: Writer, outs: list[Tensor], x: Tensor, axis: int | None = None, *_: Any) -> Value:
        if axis is None:
            raise Unsupported("the place of an extreme of all")
        return _placed(w, [outs[0], outs[0]], x, axis, sign)[1]

    return operation


def _cholesky(w: Writer, outs: list[Tensor], x: Tensor, **named: Any) -> list[Value]:
    if named.get("upper"):
        raise Unsupported("an upper factor")
    value = w.dense(w.of(x))
    factor, failed = (w.memory(out.shape, out.dtype) for out in outs)
    with w.loops(x.shape, range(x.ndim - 2)) as index:
        offset = w.offset(x.shape, index)
        w.lines.append(
            f"{failed.at(index[:-2])} = cholesky<{x.shape[-1]}>({value.array} + {offset}, {factor.array} + {offset});"
        )
    return [factor, failed]


def _solve(w: Writer, a: Tensor, x: Value, ways: Sequence[tuple[int, int, bool]]) -> Value:
    """Solve triangular systems in turn, in place of x; each has strides of the matrix and says whether it is upper."""
    matrix, (n, m) = w.dense(w.of(a)), x.shape[-2:]
    with w.loops(x.shape, range(len(x.shape) - 2)) as index:
        at = w.offset(a.shape, broadcast(index, a.shape))
        for down, right, upper in ways:
            call = f"solve<{n}, {m}>({matrix.array} + {at}, {down}, {right}, {int(upper)}, "
            w.lines.append(f"{call}{x.array} + {w.offset(x.shape, index)});")
    return x


def _right_side(w: Writer, out: Tensor, b: Value) -> Value:
    """Return a copy of b to solve in place."""
    return w.dense(Value(tuple(out.shape), out.dtype, lambda index: b.at(broadcast(index, b.shape))))


def _cholesky_solve(w: Writer, outs: list[Tensor], b: Tensor, factor: Tensor, upper: bool = False) -> Value:  # noqa: FBT001, FBT002
    if upper:
        raise Unsupported("an upper factor")
    n = factor.shape[-1]
    return _solve(w, factor, _right_side(w, outs[0], w.of(b)), [(n, 1, False), (1, n, True)])


def _cholesky_inverse(w: Writer, outs: list[Tensor], factor: Tensor, upper: bool = False) -> Value:  # noqa: FBT001, FBT002
    if upper:
        raise Unsupported("an upper factor")
    n, one = factor.shape[-1], w.memory(factor.shape[-2:], outs[0].dtype)
    with w.loops(one.shape) as index:
        w.lines.append(f"{one.at(index)} = splat({index[0]} == {index[1]} ? 1.0 : 0.0);")
    return _solve(w, factor, _right_side(w, outs[0], one), [(n, 1, False), (1, n, True)])


def _solve_triangular(
    w: Writer, outs: list[Tensor], a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Value:
    if not left or unitriangular:
        raise Unsupported("a system of another form")
    return _solve(w, a, _right_side(w, outs[0], w.of(b)), [(a.shape[-1], 1, upper)])


SHAPED = ("zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full")
"""Operations that use only the shape of a tensor."""

VIEWS: dict[str, Operation] = {
    "view": _reshape, "_unsafe_view": _reshape, "reshape": _reshape, "unsqueeze": _reshape, "squeeze": _reshape,
    "permute": _permute, "transpose": _transpose, "t": _transpose, "expand": _expand, "select": _select,
    "slice": _slice, "diagonal": _diagonal, "alias": _same, "detach": _same, "lift_fresh": _same,
}  # fmt: skip
"""Operations that only move elements."""

KNOWN: dict[str, Operation] = {
    **VIEWS,
    **dict.fromkeys(("clone", "contiguous", "_to_copy", "lift_fresh_copy"), _same),
    **{name: _pointwise(f"({{}} {sign} {{}})".format) for name, sign in (
        ("add", "+"), ("sub", "-"), ("mul", "*"), ("div", "/"))},
    **{name: _pointwise(f"({{}} {sign} {{}})".format, truth=True) for name, sign in (
        ("bitwise_and", "&"), ("bitwise_or", "|"), ("bitwise_xor", "^"))},
    **{name: _pointwise(f"truth({{}} {sign} {{}})".format, compares=True) for name, sign in (
        ("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="))},
    **{name: _pointwise(f"{function}({{}})".format) for name, function in (
        ("exp", "exp_"), ("log", "log_"), ("sqrt", "root"), ("abs", "magnitude"), ("neg", "-"), ("floor", "floor_"),
        ("ceil", "ceil_"), ("round", "round_"), ("trunc", "trunc_"), ("sin", "sin_"), ("cos", "cos_"),
        ("tanh", "tanh_"), ("expm1", "expm1_"), ("log1p", "log1p_"), ("sigmoid", "sigmoid_"), ("erf", "erf_"))},
    "bitwise_not": _pointwise("~({})".format, truth=True),
    **{name: _pointwise(f"{function}({{}}, {{}})".format) for name, function in (
        ("maximum", "largest"), ("minimum", "smallest"), ("atan2", "atan2_"))},
    "rsub": lambda w, outs, a, b: KNOWN["sub"](w, outs, b, a),
    "reciprocal": _pointwise("(1.0 / {})".format),
    "rsqrt": _pointwise("(1.0 / root({}))".format),
    "pow": _power, "where": _where, "clamp": _clamp, "clamp_min": _clamp,
    "clamp_max": lambda w, outs, x, high: _clamp(w, outs, x, None, high),
    "masked_fill": lambda w, outs, x, mask, value: _where(w, outs, mask, value, x),
    "sum": _reduction("splat(0.0)", "{} + {}".format),
    "prod": _reduction("splat(1.0)", "{} * {}".format),
    "amax": _reduction("splat(-INFINITE)", "largest({}, {})".format),
    "amin": _reduction("splat(INFINITE)", "smallest({}, {})".format),
    "all": _reduction("splat(-1L)", "{} & {}".format, kind=torch.bool),
    "any": _reduction("splat(0L)", "{} | {}".format, kind=torch.bool),
    "mean": _mean, "cumsum": _cumsum, "max": _extreme("amax", "maximum"), "min": _extreme("amin", "minimum"),
    "argmax": _argument(">"), "argmin": _argument("<"), "mm": _product, "bmm": _product, "cat": _cat,
    "linalg_cholesky_ex": _cholesky, "cholesky_solve": _cholesky_solve, "cholesky_inverse": _cholesky_inverse,
    "linalg_solve_triangular": _solve_triangular,
    "zeros": _filled(0), "zeros_like": _filled(0), "new_zeros": _filled(0), "ones": _filled(1), "ones_like": _filled(1),
    "new_ones": _filled(1), "full": _filled(None), "full_like": _filled(None), "new_full": _filled(None),
    "scalar_tensor": _filled(None), "arange": _arange, "eye": _eye, "gather": _gather, "index": _index,
}  # fmt: skip
"""All operations that can be written. `pow` and others of one number are there for the types that reach them."""


# Operations in terms of those above. torch has such definitions of all operations, but imports its compiler for them,
# which takes seconds.


def _softmax(x: Tensor, axis: int, _: bool) -> Tensor:  # noqa: FBT001
    shares = (x - x.amax(axis, keepdim=True)).exp()
    return shares / shares.sum(axis, keepdim=True)


def _log_softmax(x: Tensor, axis: int, _: bool) -> Tensor:  # noqa: FBT001
    x = x - x.amax(axis, keepdim=True)
    return x - x.exp().sum(axis, keepdim=True).log()


def _logsumexp(x: Tensor, axes: Sequence[int], keepdim: bool = False) -> Tensor:  # noqa: FBT001, FBT002
    top = x.amax(axes, keepdim=True)
    top = torch.where(top.abs() == math.inf, 0.0, top)
    total = (x - top).exp().sum(axes, keepdim=True).log() + top
    return total if keepdim else total.squeeze(axes)


def _nan_to_num(
    x: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    most = torch.finfo(x.dtype).max
    x = torch.where(x == math.inf, most if posinf is None else posinf, x)
    x = torch.where(x == -math.inf, -most if neginf is None else neginf, x)
    return torch.where(x != x, nan or 0.0, x)  # noqa: PLR0124


REWRITTEN: dict[str, Callable[..., Any]] = {
    "_softmax": _softmax, "_log_softmax": _log_softmax, "logsumexp": _logsumexp, "nan_to_num": _nan_to_num,
    "isnan": lambda x: x != x,  # noqa: PLR0124
    "log_sigmoid_forward": lambda x: (x.clamp(max=0.0) - (-x.abs()).exp().log1p(), x.new_zeros(0)),
    "log_sigmoid_backward": lambda g, x, _: g * (-x).sigmoid(),
    "sigmoid_backward": lambda g, y: g * (1 - y) * y,
    "tanh_backward": lambda g, y: g * (1 - y * y),
    "unbind": lambda x, axis=0: [x.select(axis, i) for i in range(x.shape[axis])],
    "stack": lambda parts, axis=0: torch.cat([part.unsqueeze(axis) for part in parts], axis),
    "square": lambda x: x * x,
}  # fmt: skip
