"""A whole block of steps as one compiled function: a loop in C++ (see `native`), or torch's `scan` by inductor.

The loop is made in a tenth of the time and is faster, but not every step can be written as one: for the others there
is `scan`, a prototype in torch that only this file uses. For it, chains lie innermost and are filled up to a multiple
of `LANES`, so that every chain is computed by the same vector instructions whatever number of them there is: a run's
bits do not depend on its neighbours. Filling chains are copies of the first and are dropped. `scan` wants a carry that
is new, contiguous and not shared: every leaf is copied here, so that authors of samplers need not know. State entries
go in the order of their names, for `scan` knows them by place.

Where no C++ compiler works, a warning says so, and the steps are done one by one.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

from harness.engine.stepping.block import Advanced, Block, check_calls, check_returned, check_weights, drawn
from harness.engine.stepping.execution_mode import CPP_WRAPPER_FROM, torch_version
from harness.engine.stepping.making import kind_of, making, tell_compiler
from harness.engine.stepping.noise import Noise, StepNoise
from harness.engine.stepping.plain import advance
from harness.engine.stepping.potential import CountingPotential, Potential
from harness.system.cpp import CompilerError, built
from harness.system.errors import BenchError, PluginError

if TYPE_CHECKING:
    from torch import Tensor

    from harness.contracts.sampler import Sampler, State
    from harness.contracts.task import Batch
    from harness.engine.stepping.native import Native, Step

LANES = 16
"""Chains are filled up to a multiple: what the widest vector registers hold, twice over for float64."""

FEWEST = 2
"""Steps of a compiled block; a single one is done plainly, because torch would compile it again."""

INLINED = 16
"""Operations that are written out where a value is used again; torch's 30 makes ten leapfrog steps a minute's work."""

Lanes = dict[str, Any]
Function = Callable[[Lanes, Lanes], tuple[Lanes, Lanes]]


class Compiled:
    """Blocks by compiled functions: one for each kind of block that a run has, made when it is first met."""

    in_place = False

    def __init__(self, backend: str = "inductor") -> None:
        self.backend = backend
        self.compiling = 0.0
        self._made: dict[tuple[bool, ...], Function] = {}
        self._natives: dict[tuple[bool, ...], Native | None] = {}
        self._broken = False

    def advance(
        self, sampler: Sampler, potential: CountingPotential, theta: Tensor, state: State, block: Block
    ) -> Advanced:
        """Run the steps of a block."""
        import torch

        native = self._native(sampler, potential, theta, state, block)
        if native is not None:
            return native.advance(theta, state, block, sampler.particles * theta.shape[1])
        if len(block) < FEWEST or self._broken:
            return advance(sampler, potential, theta, state, block)
        chains = len(theta)
        rows = torch.arange(-(-chains // LANES) * LANES, device=theta.device)
        rows[chains:] = 0
        carry = {"theta": _lanes(theta, rows, 0), "state": {n: _lanes(state[n], rows, 0) for n in sorted(state)}}
        steps = {
            "h": block.h,
            "T": block.T,
            "noise": [_lanes(slot, rows, 1) for slot in block.noise if slot.ndim],
            "batch": {name: _lanes(leaf, rows, 1) for name, leaf in block.batches.items()},
        }
        function = self._function(sampler, potential, block, carry, steps)
        carry, out = function(carry, steps)
        keep = torch.from_numpy(block.keep).to(theta.device)
        kept = {name: _chains(leaf if block.keep.all() else leaf[keep], chains, 1) for name, leaf in out.items()}
        left = {name: _chains(leaf, chains, 0) for name, leaf in carry["state"].items()}
        return Advanced(_chains(carry["theta"], chains, 0), left, kept["theta"], kept.get("log_weight"))

    def _native(
        self, sampler: Sampler, potential: CountingPotential, theta: Tensor, state: State, block: Block
    ) -> Native | None:
        """The loop in C++ of this kind of block, if its step can be written as one."""
        kind = kind_of(block)
        if kind not in self._natives and self.backend == "inductor" and not self._broken:
            began = time.perf_counter()
            try:
                self._natives[kind] = _written(_step(sampler, potential, block), theta, state, block)
            except CompilerError as error:
                self._broken = True
                warnings.warn(f"steps are not compiled but done one by one: {error}", RuntimeWarning, stacklevel=2)
            self.compiling += time.perf_counter() - began
        return self._natives.get(kind)

    def _function(
        self, sampler: Sampler, potential: CountingPotential, block: Block, carry: Lanes, steps: Lanes
    ) -> Function:
        """The function of this kind of block; where it is new, it is compiled by a call on the first steps."""
        kind = kind_of(block)
        if kind not in self._made:
            began = time.perf_counter()
            with making(sampler):
                self._made[kind] = _compile(_scan(sampler, potential, block), carry, steps, self.backend)
            self.compiling += time.perf_counter() - began
        return self._made[kind]


def _written(step: Step, theta: Tensor, state: State, block: Block) -> Native | None:
    """The loop in C++; None where the step cannot be written. Raises `CompilerError` where the compiler is at fault."""
    from harness.engine.stepping.native import Native

    try:
        return Native(step, theta, state, block)
    except (CompilerError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, BenchError) and not isinstance(error, PluginError):
            raise  # a time limit, for example
        # Also what is wrong in the plugin: the scan fails for the same reason, and says so.
        logging.getLogger(__name__).info("no loop in C++: %s: %s", type(error).__name__, error)
        built("")  # nor would the scan find a compiler that works
        return None


def _compile(function: Function, carry: Lanes, steps: Lanes, backend: str) -> Function:
    """Compile for blocks of any length, by a call on the first `FEWEST` steps whose answer is dropped."""
    import torch
    from torch._dynamo import mark_dynamic
    from torch.utils import _pytree as tree

    tell_compiler()
    for noisy in ("torch.utils.cpp_extension", "torch._inductor"):  # a GPU that none asked for, calls it cannot inline
        logging.getLogger(noisy).setLevel(logging.ERROR)
    options = {
        "cpp_wrapper": torch_version() >= CPP_WRAPPER_FROM,
        "compile_threads": 1,
        "realize_opcount_threshold": INLINED,
    }
    # Not dynamic but for what is marked: else torch would guess from earlier runs what may vary in this one.
    compiled = torch.compile(
        function, fullgraph=True, dynamic=False, backend=backend, options=options if backend == "inductor" else None
    )

    def call(carry: Lanes, steps: Lanes) -> tuple[Lanes, Lanes]:
        for leaf in tree.tree_leaves(steps):
            mark_dynamic(leaf, 0)
        return compiled(carry, steps)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of torch about torch
        call(carry, tree.tree_map(lambda leaf: leaf[:FEWEST].clone(), steps))
    return call


def _step(sampler: Sampler, potential: CountingPotential, block: Block) -> Step:
    """A step of this kind of block, with its checks; only what makes code of it calls it."""
    slots, adapt = block.slots, block.adapt

    def step(
        theta: Tensor, state: State, h: Tensor, T: Tensor, values: Sequence[Tensor], batch: Batch
    ) -> tuple[Tensor, State, Tensor, Tensor | None]:
        like, was = theta, state
        noise = StepNoise(slots)
        noise.start(values)
        asked = potential.on(batch or None, theta.shape)
        theta, state = sampler.step(theta, dict(state), Potential(asked, sampler), h, T, Noise(noise))
        noise.finish()
        if adapt:
            state = sampler.adapt(state, h, T)
        weight = sampler.log_weight(state)
        if weight is not None:
            check_weights(sampler, weight, like.shape[:1])
        # Done while the code is made: what was traced is what every step does, whatever Python would do later.
        check_calls(sampler, asked.take_counts())
        check_returned(sampler, theta, state, like, was)
        return theta, state, drawn(sampler, theta, state), weight

    return step


def _scan(sampler: Sampler, potential: CountingPotential, block: Block) -> Function:
    """The block as a function of the carry and of what differs from step to step, chains last in both."""
    from torch._higher_order_ops.scan import scan

    step = _step(sampler, potential, block)
    heated = [bool(slot.ndim) for slot in block.noise]

    def one(carry: Lanes, now: Lanes) -> tuple[Lanes, Lanes]:
        theta = carry["theta"].movedim(-1, 0)
        state = {name: leaf.movedim(-1, 0) for name, leaf in carry["state"].items()}
        batch = {name: leaf.movedim(-1, 0) for name, leaf in now["batch"].items()}
        noise = _values(now["noise"], heated, theta)
        theta, state, draw, weight = step(theta, state, now["h"], now["T"], noise, batch)
        out = {"theta": _fresh(draw)}
        if weight is not None:
            out["log_weight"] = _fresh(weight)
        return {"theta": _fresh(theta), "state": {name: _fresh(state[name]) for name in sorted(state)}}, out

    def whole(carry: Lanes, steps: Lanes) -> tuple[Lanes, Lanes]:
        return scan(one, carry, steps)

    # torch counts what it compiled by code object, and gives up after a few: each run has one of its own.
    return FunctionType(whole.__code__.replace(), whole.__globals__, closure=whole.__closure__)


def _values(noise: Sequence[Tensor], drawn: Sequence[bool], like: Tensor) -> list[Tensor]:
    """The values of all slots of a step; those not drawn are a 0-dim zero."""
    values = iter(noise)
    return [next(values).movedim(-1, 0) if there else like.new_zeros(()) for there in drawn]


def _fresh(leaf: Tensor) -> Tensor:
    import torch

    return leaf.movedim(0, -1).clone(memory_format=torch.contiguous_format)


def _lanes(leaf: Tensor, rows: Tensor, axis: int) -> Tensor:
    """The chains along `axis` filled up and moved last, in new memory."""
    import torch

    filled = leaf if len(rows) == leaf.shape[axis] else leaf.index_select(axis, rows)
    return filled.movedim(axis, -1).clone(memory_format=torch.contiguous_format)


def _chains(leaf: Tensor, chains: int, axis: int) -> Tensor:
    """The inverse of `_lanes`."""
    return leaf[..., :chains].movedim(-1, axis)
