"""Steps of many parameters, one at a time: the update is compiled and writes theta and state, the gradient is opaque.

A network's gradient takes hundreds of kernels that are the task's own business. The sampler's lines around it read and
write every parameter, and as plain tensor algebra each operation is a pass through memory of its own. Here they are one
kernel, or a few: the gradient is an operation that the compiler does not compile, wherever in the step a sampler asks
for it, and what `step` returns is copied into the buffers of theta and state within the same kernels. So a step needs
no more memory than theta, state, noise and the gradient.
"""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

from harness.engine.stepping.block import (
    Advanced,
    Block,
    Stepper,
    check_calls,
    check_returned,
    drawn,
    finite,
    split,
    stacked,
)
from harness.engine.stepping.making import kind_of, making, reasons, tell_compiler
from harness.engine.stepping.noise import Noise, StepNoise
from harness.engine.stepping.potential import Potential
from harness.system.cpp import CompilerError, error_line, lacks_means
from harness.system.device_errors import lacks_memory, lost_device
from harness.system.errors import BenchError

if TYPE_CHECKING:
    from torch import Tensor

    from harness.contracts.module import Layout
    from harness.contracts.sampler import GaussNewton, Sampler, State
    from harness.contracts.task import Batch
    from harness.engine.stepping.potential import BoundPotential, CountingPotential

    Function = Callable[[Tensor, State, Tensor, Tensor, list[Tensor], Batch], None]

_POTENTIALS: weakref.WeakValueDictionary[int, BoundPotential] = weakref.WeakValueDictionary()


class Update(Stepper):
    """Steps executed one by one by compiled functions: one for each kind of block."""

    mode = "compiled"
    counts = True
    """Whether every step calls the potential; a recorded one is replayed without calls."""

    in_place = True

    def __init__(
        self, sampler: Sampler, potential: CountingPotential, backend: str = "inductor", *, opaque: bool = True
    ) -> None:
        super().__init__(sampler, potential)
        self.backend, self.opaque = backend, opaque
        self._functions: dict[tuple[bool, ...], Function] = {}

    def make(self, theta: Tensor, state: State, block: Block) -> None:
        """Make the function for steps of blocks like this one. It is made when it is first called, on copies here."""
        import torch

        noise = _noise(block, 0)
        copies = {name: leaf.clone() for name, leaf in state.items()}
        batch = {name: leaf.to(theta.device).contiguous() for name, leaf in (split(block.batches, 1)[0] or {}).items()}
        self.potential.bind(batch or None)
        given = (theta.clone(), copies, block.h[0], block.T[0], noise, {} if self.opaque else batch)
        with making(self.sampler):
            written = _update(self.sampler, self.potential, block, given, opaque=self.opaque)
            update = self._functions[kind_of(block)] = _compile(written, self.backend)
            try:
                update(*given)
            except torch._dynamo.exc.BackendCompilerFailed as error:  # noqa: SLF001 - it has no public name
                raise _of_compiler(error.inner_exception) from error
        self.potential.take_counts()

    def advance(self, theta: Tensor, state: State, block: Block) -> Advanced:
        """Run the steps of a block. Unlike in the other modes, the results overwrite theta and state."""
        import torch

        sampler, draws, log_weights = self.sampler, [], []
        lost = torch.zeros(len(theta), dtype=torch.int64, device=theta.device)
        for k, batch in enumerate(split(block.batches, len(block))):
            self._step(batch, theta, state, block, (block.h[k], block.T[k], _noise(block, k)))
            draw = drawn(sampler, theta, state)
            lost = lost.where((lost > 0) | finite(draw), k + 1)
            if block.keep[k]:
                draws.append(draw.clone())
                weight = sampler.log_weight(state)
                log_weights += [] if weight is None else [weight.clone()]
            counted = self.potential.take_counts()
            if self.counts or any(counted):
                check_calls(sampler, counted)
        return Advanced(theta, state, *stacked(sampler, draws, log_weights, theta), lost)

    def _step(
        self, batch: Batch | None, theta: Tensor, state: State, block: Block, now: tuple[Tensor, Tensor, list[Tensor]]
    ) -> None:
        self.potential.bind(batch)
        self._functions[kind_of(block)](theta, state, *now, {} if self.opaque else batch or {})


def _noise(block: Block, k: int) -> list[Tensor]:
    """Return the noise of a step, in memory as in every other step: for other strides it would be compiled again."""
    return [slot[k].contiguous().view(-1).view(slot[k].shape) if slot.ndim else slot for slot in block.noise]


class Opaque:
    """A potential as operations that the compiler does not compile: it knows only the shapes of their results."""

    def __init__(self, potential: BoundPotential, *, full: bool = False) -> None:
        _register()
        self.terms = potential.terms
        self._potential = potential  # its number is valid for as long as it exists
        self._which = (_number(potential), full)
        self._full = self if full else Opaque(potential, full=True)

    def grad(self, x: Tensor) -> Tensor:
        """Return grad U (C, D) at x."""
        import torch

        gradient: Tensor = torch.ops.sgmcmc_bench.gradient(x, *self._which)
        return gradient

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return U (C,) and grad U (C, D) at x."""
        import torch

        energy, gradient = torch.ops.sgmcmc_bench.energy_and_gradient(x, *self._which)
        return energy, gradient

    def scores(self, x: Tensor) -> Tensor:
        """Raise `NotImplementedError`: scores have the size of a batch times theta."""
        raise NotImplementedError("no scores where single steps are compiled; --set run.compile=plain")

    def metric(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Raise `NotImplementedError`: the metric has the size of theta squared."""
        raise NotImplementedError("no metric where single steps are compiled; --set run.compile=plain")

    def gauss_newton(self, x: Tensor, *, last_layer: bool, full: bool) -> GaussNewton:
        """Raise `NotImplementedError`: it is part of no step."""
        raise NotImplementedError("no gauss_newton where single steps are compiled; --set run.compile=plain")

    @property
    def layout(self) -> Layout:
        """The problem's layout."""
        return self._potential.layout

    @property
    def full(self) -> Opaque:
        """U on all the data."""
        return self._full


def _number(potential: BoundPotential) -> int:
    """Give a potential the smallest free number and return it, so that a later process finds the same code again."""
    free = next(n for n in itertools.count() if _POTENTIALS.get(n) in (None, potential))
    _POTENTIALS[free] = potential
    return free


@functools.cache
def _register() -> None:
    """Register the operations with torch."""
    import torch

    def asked(number: int, full: bool) -> BoundPotential:  # noqa: FBT001 - as torch passes it
        return _POTENTIALS[number].full if full else _POTENTIALS[number]

    operations = {
        "gradient": (
            "Tensor",
            lambda x, *which: _with_autograd(asked(*which).grad, x),
            lambda x, *_: x.new_empty(x.shape),
        ),
        "energy_and_gradient": (
            "(Tensor, Tensor)",
            lambda x, *which: _with_autograd(asked(*which).value_and_grad, x),
            lambda x, *_: (x.new_empty(len(x)), x.new_empty(x.shape)),
        ),
    }
    torch.library.define("sgmcmc_bench::copy", "(Tensor x) -> Tensor")
    torch.library.impl("sgmcmc_bench::copy", "CompositeExplicitAutograd", torch.clone)
    torch.library.register_fake("sgmcmc_bench::copy", torch.empty_like)
    for name, (returned, computed, shaped) in operations.items():
        qualified = f"sgmcmc_bench::{name}"
        torch.library.define(qualified, f"(Tensor x, int potential, bool full) -> {returned}")
        torch.library.impl(qualified, "CompositeExplicitAutograd", computed)
        torch.library.register_fake(qualified, shaped)


def _with_autograd(function: Callable[[Tensor], Any], x: Tensor) -> Any:
    """Return a function's result at x with autograd, which compiled code hides from its operations."""
    from torch import _C

    with _C._PreserveDispatchKeyGuard():  # noqa: SLF001 - torch offers no public way out of compiled code
        for key in ("AutogradFunctionality", "AutogradOther", "ADInplaceOrView"):
            _C._dispatch_tls_set_dispatch_key_excluded(getattr(_C.DispatchKey, key), False)  # noqa: SLF001
        return function(x)


def _update(
    sampler: Sampler, potential: CountingPotential, block: Block, given: tuple[Any, ...], *, opaque: bool
) -> Function:
    """Return a function that makes one step of this kind of block, on theta and state in place.

    If the potential is not `opaque`, the function consists of what the step did with the `given` arguments.
    """
    slots, adapt, handed = block.slots, block.adapt, Potential(Opaque(potential) if opaque else potential, sampler)

    def step(
        theta: Tensor, state: State, h: Tensor, T: Tensor, values: list[Tensor], batch: Batch
    ) -> tuple[Tensor, State]:
        noise = StepNoise(slots)
        noise.start(values)
        counting = None if opaque else potential.on(batch or None, theta.shape)
        asked = handed if counting is None else Potential(counting, sampler)
        new_theta, new = sampler.step(theta, dict(state), asked, h, T, Noise(noise))
        noise.finish()
        if counting is not None:
            check_calls(sampler, counting.take_counts())
        if adapt:
            new = sampler.adapt(new, h, T)
        check_returned(sampler, new_theta, new, theta, state)  # `copy_` would cast and broadcast silently
        return new_theta, new

    whole_step = step if opaque else _trace(step, given)

    def update(theta: Tensor, state: State, h: Tensor, T: Tensor, values: list[Tensor], batch: Batch) -> None:
        new_theta, new = whole_step(theta, state, h, T, values, batch)
        # A result may be theta or an entry of the state itself, so all results are settled before any is written.
        before = [theta, *state.values()]
        changed = zip(before, (new_theta, *(new[name] for name in state)), strict=True)
        fresh = [(leaf, _separate_copy(value, before)) for leaf, value in changed if value is not leaf]
        for leaf, value in fresh:
            leaf.copy_(value)

    return update


def _trace(step: Callable[..., Any], given: tuple[Any, ...]) -> Callable[..., Any]:
    """Return the operations of torch that a step does, which its compiler can fuse."""
    from torch.fx.experimental.proxy_tensor import make_fx

    return make_fx(step)(*given)


def _separate_copy(value: Tensor, before: Sequence[Tensor]) -> Tensor:
    """Return a copy of what a step returned, which does not change while theta and state are written.

    The compiler of torch 2.14 drops a clone of theta itself, and reads it after theta was written. It cannot drop an
    operation that it does not know.
    """
    import torch

    is_old = any(value is leaf for leaf in before)
    copy: Tensor = torch.ops.sgmcmc_bench.copy(value) if is_old else value.clone()
    return copy


def _of_compiler(error: Exception) -> Exception:
    """Return an error of torch's compiler as a `CompilerError`, with the C++ compiler's own message if it has one."""
    if isinstance(error, BenchError) or lacks_memory(error) or lost_device(error):
        return error
    output = getattr(error, "output", None)  # of a CppCompileError, whose text begins with the command
    said = f"the C++ compiler failed: {error_line(output)}" if isinstance(output, str) else reasons(error)
    return CompilerError(said, lasting=not (isinstance(error, OSError) or lacks_means(said)))


def _compile(update: Function, backend: str) -> Function:
    import torch

    def compiled_only(*arguments: Any) -> None:
        if not torch.compiler.is_compiling():
            raise CompilerError("torch executed the update and did not compile it", lasting=False)
        update(*arguments)

    tell_compiler()
    # torch counts what it compiled by code object, and gives up after a few, so each run has its own.
    entry = FunctionType(compiled_only.__code__.replace(), compiled_only.__globals__, closure=compiled_only.__closure__)
    options = {"compile_threads": 1} if backend == "inductor" else None
    compiled: Function = torch.compile(entry, fullgraph=True, dynamic=False, backend=backend, options=options)
    return compiled
