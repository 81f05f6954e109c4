"""A block of steps as one function in C++, which the system's compiler builds in a fraction of a second.

`recording` writes the step. This module writes the loops around it: over some chains at a time, and over the steps, so
that position and state stay in the processor during all steps of the block.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.utils import _pytree as tree

from harness.engine.stepping.block import Advanced, Block
from harness.engine.stepping.execution_mode import LANES
from harness.engine.stepping.lanes import KINDS, Breach, Unsupported, Value, Writer
from harness.engine.stepping.recording import Recorder, said_to_compile, write
from harness.system.cpp import built

PRIMES = (3, 5, 7, 11, 13, 17, 19, 23)
"""Numbers of chains with which a step is recorded: the first two that identify the axis of the chains."""

FEW = 512
"""Most numbers of a chain's input to a step that is copied if it is used more than once."""

TILE = 8
"""Vectors of chains that are computed in turn within a step: what is read and written is then contiguous, and the
processor can begin the next vector before the last is done."""

TILE_BYTES = 1 << 15
"""Most bytes of their positions and states: what the nearest cache holds."""

LARGE = 1 << 16
"""Numbers of a constant from which it is stored in the smallest type that has them: the processor waits for memory."""

PACKED = {torch.float64: "double", torch.float32: "float", torch.bfloat16: "Half", torch.int64: "long"}
"""The types of constants in C++."""

PRELUDE = Path(__file__).with_name("lanes.h")

MOVES = ("take(", "take_row<", "turn(")
"""Functions of `PRELUDE` for which it includes the header of the processor's instructions, in code for 1 or `LANES`
chains at once. Reading it takes the compiler longer than most steps.
"""

State = dict[str, Tensor]
Step = Callable[[Tensor, State, Tensor, Tensor, list[Tensor], State], tuple[Tensor, State, Tensor, Tensor | None]]
"""(theta, state, h, T, noise, batch) to (theta, state, draw, log weights if any)."""


@dataclass(frozen=True)
class Written:
    """The code of a block, its constants, its numbers by `float.hex`, and the bytes that it needs beyond the stack.

    `weighted` says whether it writes log weights of the draws.
    """

    code: str
    constants: list[Tensor]
    numbers: list[str]
    beyond: int
    weighted: bool


class Native:
    """The compiled function of one kind of block. Making it raises `Unsupported` or `CompilerError`."""

    def __init__(self, step: Step, theta: Tensor, state: State, block: Block) -> None:
        written: list[Written] = []
        why = Unsupported("no number of chains tells their axis from others")
        for chains in PRIMES:
            try:
                written.append(_written(step, theta, state, block, chains))
            except Unsupported as reason:
                why = reason
            if len(written) == 2:
                break
        else:
            raise why
        self.written, other = written
        code, numbers, constants = self.written.code, self.written.numbers, self.written.constants
        if code != other.code or numbers != other.numbers or not all(map(torch.equal, constants, other.constants)):
            raise Breach("what a step does depends on the number of chains, or on what Python keeps")
        self.numbers = torch.tensor([*map(float.fromhex, numbers), 0.0], dtype=torch.float64)
        self.lanes = min(LANES, 1 << len(theta).bit_length() - 1)
        self._load()

    def _load(self) -> None:
        """Load the code for the constants as they are."""
        self.constants = [_packed(leaf) for leaf in self.written.constants]
        self.versions = [leaf._version for leaf in self.written.constants]  # noqa: SLF001
        types = "".join(f"#define K{n} {PACKED[leaf.dtype]}\n" for n, leaf in enumerate(self.constants))
        prelude, code = PRELUDE.read_text(encoding="utf-8"), self.written.code
        moves = self.lanes in {1, LANES} and any(name in code for name in MOVES)
        defined = f"#define LANES {self.lanes}\n#define MOVES {int(moves)}\n{types}"
        self.function = built(f"{defined}{prelude}{code}").advance_block

    def advance(self, theta: Tensor, state: State, block: Block, width: int) -> Advanced:
        """Run the steps of a block whose draws have `width` numbers."""
        kept = int(block.keep.sum())
        draws, weights = theta.new_empty((kept, len(theta), width)), theta.new_empty((kept, len(theta)))
        carry = [_number(leaf).contiguous() for leaf in _leaves(theta, state)]
        left = [torch.empty_like(leaf) for leaf in carry]
        inputs = [leaf if leaf[0, 0].is_contiguous() else leaf.contiguous() for leaf in map(_number, _inputs(block))]
        if self.versions != [leaf._version for leaf in self.written.constants]:  # noqa: SLF001
            self._load()
        beyond = torch.empty(self.written.beyond, dtype=torch.uint8)
        scalars = [block.h.contiguous(), block.T.contiguous(), self.numbers]
        held = [beyond, *carry, *left, draws, weights, *scalars, *inputs, *self.constants]
        strides = [stride for leaf in inputs for stride in leaf.stride()[:2]]
        self.function(
            ctypes.c_long(len(block)), ctypes.c_long(len(theta)), ctypes.c_char_p(block.keep.tobytes()),
            (ctypes.c_void_p * len(held))(*(leaf.data_ptr() for leaf in held)),
            (ctypes.c_long * len(strides))(*strides),
        )  # fmt: skip
        theta, *left = (leaf.to(was.dtype) for leaf, was in zip(left, _leaves(theta, state), strict=True))
        log_weights = weights if self.written.weighted else None
        return Advanced(theta, dict(zip(sorted(state), left, strict=True)), draws, log_weights)


def _packed(leaf: Tensor) -> Tensor:
    """Return a constant in memory: a `LARGE` one in the smallest type that has its numbers."""
    leaf = _number(leaf).contiguous()
    if leaf.numel() > LARGE and leaf.is_floating_point():
        for kind in (torch.bfloat16, torch.float32):
            packed = leaf.to(kind)
            if torch.equal(packed.to(leaf.dtype), leaf):
                return packed
    return leaf


def _number(leaf: Tensor) -> Tensor:
    if leaf.dtype in {torch.float64, torch.int64}:
        return leaf
    return leaf.double() if leaf.is_floating_point() else leaf.long()


def _leaves(theta: Tensor, state: State) -> list[Tensor]:
    return [theta, *(state[name] for name in sorted(state))]


def _inputs(block: Block) -> list[Tensor]:
    """Return what differs from step to step and from chain to chain, (B, C, ...) each."""
    return [*(slot for slot in block.noise if slot.ndim), *(block.batches[name] for name in sorted(block.batches))]


def _written(step: Step, theta: Tensor, state: State, block: Block, chains: int) -> Written:  # noqa: C901, PLR0915 - one text
    """Return the code of a block, recorded with this number of chains."""

    def copies(leaf: Tensor) -> Tensor:
        return leaf[:1].expand(chains, *leaf.shape[1:]).clone()

    given = {"theta": copies(theta), **{f"state {name}": copies(state[name]) for name in sorted(state)}}
    noise = [copies(slot[0]) if slot.ndim else slot.clone() for slot in block.noise]
    batch = {name: copies(block.batches[name][0]) for name in sorted(block.batches)}
    h, T = block.h[0].clone(), block.T[0].clone()
    before = {name: given[f"state {name}"] for name in state}
    recorder = Recorder()
    with said_to_compile(), recorder:
        after, left, draw, weight = step(given["theta"], dict(before), h, T, noise, batch)
    after, left, draw, weight = tree.tree_map(recorder.now, (after, left, draw, weight))
    w = Writer(chains)
    pointers: list[tuple[str, torch.dtype | None]] = [("beyond", None)]
    carry, each, start, end, bytes_ = [], [], [], [], 0
    carried = [f"c{number}" for number in range(len(given))]
    for name, leaf in zip(carried, given.values(), strict=True):
        kind, size = KINDS.get(leaf.dtype, ""), leaf[0].numel()
        pointers.append((f"p{name}", leaf.dtype))
        sign = "-" if kind == "B" else ""
        bytes_ += size * LANES * 8
        carry.append(f"{_vector(leaf)} all_{name}[TILE][{size}];")
        each.append(f"auto* const {name} = all_{name}[(g - first) / LANES];")
        where, elements = f"{name} + at * {size} + i, many * {size}", f"for (long i = 0; i < {size}; ++i)"
        start.append(f"{elements} {name}[i] = {sign}row(p{where});")
        end.append(f"{elements} put(o{where}, {sign}{name}[i]);")
        w.values[id(leaf)] = w.leaf(leaf.shape, leaf.dtype, f"{name}[{{}}]".format, name)
    pointers += [(f"o{name}", leaf.dtype) for name, leaf in zip(carried, given.values(), strict=True)]
    pointers += [(name, torch.float64) for name in ("draws", "weights", "ph", "pT", "numbers")]
    each.insert(0, "const long at = chains < LANES ? 0 : g < chains - LANES ? g : chains - LANES;")
    views = list(each)
    for name, leaf in (("h", h), ("T", T)):
        each.append(f"const V {name} = splat(p{name}[k]);")
        w.values[id(leaf)] = Value((), leaf.dtype, lambda _, name=name: name, cheap=True)  # type: ignore[misc]
    for slot in noise:
        if not slot.ndim:
            w.values[id(slot)] = Value((), slot.dtype, lambda _: "splat(0.0)", cheap=True)
    for number, leaf in enumerate([*(slot for slot in noise if slot.ndim), *batch.values()]):
        name, size = f"n{number}", leaf[0].numel()
        pointers.append((f"p{name}", leaf.dtype))
        each.append(f"const auto* {name} = p{name} + k * s[{2 * number}] + at * s[{2 * number + 1}];")
        sign = "-" if leaf.dtype is torch.bool else ""
        w.values[id(leaf)] = w.leaf(
            leaf.shape, leaf.dtype, f"{sign}row({name} + {{}}, many * s[{2 * number + 1}])".format, cheap=size > FEW
        )
    results = _leaves(after, left)
    out = [draw] if weight is None else [draw, weight]
    write(w, recorder.nodes, [*results, *out])
    copied = []
    for name, was, leaf in zip(carried, given.values(), results, strict=True):
        value = w.of(leaf)
        if leaf is was:
            continue
        if not value.array.startswith("t"):  # the array of another entry, or of an old value
            value = w.dense(Value(value.shape, value.dtype, value.at))
        if value.shape != tuple(was.shape) or value.dtype != was.dtype:
            raise Unsupported(f"{tuple(value.shape)} in place of {tuple(was.shape)}")
        copied.append((name, was, value))
    w.lines.append("if (keep[k]) {")
    for name, leaf in zip(("draws", "weights"), out, strict=False):
        value, size = w.cast(w.of(leaf), torch.float64), leaf[0].numel()
        if w.axis(leaf.shape) != 0:
            raise Unsupported(f"{name} of shape {tuple(leaf.shape)}")
        with w.loops(leaf.shape) as index:
            w.lines.append(
                f"put({name} + (kept * chains + at) * {size} + {w.offset(leaf.shape, index)}, many * {size}, "
                f"{value.at(index)});"
            )
    w.lines.append("}")
    for name, leaf, value in copied:
        with w.loops(leaf.shape) as index:
            w.lines.append(f"{name}[{w.offset(leaf.shape, index)}] = {value.at(index)};")
    types = {torch.float64: "double", torch.float32: "double", None: "char"}
    opened = [
        f"{types.get(dtype, 'long')}* const {name} = ({types.get(dtype, 'long')}*)p[{number}];"
        for number, (name, dtype) in enumerate(pointers)
    ]
    opened += [f"K{n}* const k{n} = (K{n}*)p[{len(pointers) + n}];" for n in range(len(w.constants))]
    groups = "for (long g = first; g < last; g += LANES) {"
    code = [
        'extern "C" void advance_block(long steps, long chains, const char* keep, void* const* p, const long* s) {',
        *opened, "const long many = chains > 1;",
        *(f"const V {name} = splat(numbers[{i}]);" for i, name in enumerate(w.numbers.values())),
        f"enum {{ TILE = {max(1, min(TILE, TILE_BYTES // bytes_))} }};",
        "for (long first = 0; first < chains; first += TILE * LANES) {",
        "const long end = first + TILE * LANES, last = end < chains ? end : chains;", *carry,
        groups, *views, *start, "}",
        "for (long k = 0, kept = 0; k < steps; kept += keep[k++])", groups, *each, *w.lines, "}",
        groups, *views, *end, "}", "}", "}",
    ]  # fmt: skip
    return Written("\n".join([*code, ""]), w.constants, [*w.numbers], w.beyond, weighted=weight is not None)


def _vector(leaf: Tensor) -> str:
    return "V" if leaf.is_floating_point() else "L"
