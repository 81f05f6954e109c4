"""The potential: the harness's own objects, and the restricted one that samplers get.

A sampler gets a `Potential` made of closures. It has the interface of `harness.Potential`, and no attribute of it leads
to the problem, the data or the truth. (Python can open a closure; RULES.md names what it cannot prevent.)
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import harness
from harness.system.errors import PluginError

if TYPE_CHECKING:
    from torch import Tensor

    from harness.contracts import sampler as contract
    from harness.contracts.module import Layout
    from harness.contracts.task import Batch, Problem

    Gate = Callable[[Tensor], None]


class Potential:
    """The potential that a sampler gets: the interface of `harness.Potential` and nothing else.

    `scores`, `metric`, `gauss_newton` and `layout` raise `PluginError` if the sampler does not declare the need.
    """

    __slots__ = ("_layout", "full", "gauss_newton", "grad", "metric", "scores", "terms", "value_and_grad")

    def __init__(self, potential: contract.Potential, sampler: contract.Sampler, *, full: bool = False) -> None:
        needs, owner = sampler.needs, type(sampler).__name__

        def grad(x: Tensor) -> Tensor:
            return potential.grad(x)

        def value_and_grad(x: Tensor) -> tuple[Tensor, Tensor]:
            return potential.value_and_grad(x)

        def declared(need: str) -> contract.Potential:
            if need not in needs:
                asks = f"{owner} asks for the {need} of a potential{_call_site()} and does not declare it"
                raise PluginError(f"{asks}: add {need!r} to `needs`")
            return potential

        def scores(x: Tensor) -> Tensor:
            return declared("scores").scores(x)

        def metric(x: Tensor) -> tuple[Tensor, Tensor]:
            return declared("metric").metric(x)

        def gauss_newton(x: Tensor, *, last_layer: bool, full: bool) -> contract.GaussNewton:
            return declared("gauss_newton").gauss_newton(x, last_layer=last_layer, full=full)

        def layout() -> Layout:
            return declared("layout").layout

        self.terms = potential.terms
        self._layout = layout
        self.grad = grad
        self.value_and_grad = value_and_grad
        self.scores = scores
        self.metric = metric
        self.gauss_newton = gauss_newton
        self.full: Potential = self if full else Potential(potential.full, sampler, full=True)

    @property
    def layout(self) -> Layout:
        """Names and shapes of a network's weights within theta."""
        return self._layout()


class BoundPotential:
    """The potential of one step: a `Problem` with its current batch. It checks nothing and counts nothing."""

    def __init__(self, problem: Problem, terms: int, batch: Batch | None = None) -> None:
        self._problem = problem
        self.terms = terms
        self.batch = batch

    def bind(self, batch: Batch | None) -> None:
        """Switch to another batch."""
        self.batch = batch

    def grad(self, x: Tensor) -> Tensor:
        """Return grad U (C, D) at x."""
        return self._problem.gradient(x, self.batch)

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return U (C,) and grad U (C, D) at x."""
        return self._problem.energy_and_gradient(x, self.batch)

    def scores(self, x: Tensor) -> Tensor:
        """Return the gradients of the likelihood terms of the batch (C, n, D) at x."""
        return self._problem.scores(x, self.batch)

    def metric(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the inverse metric (C, D, D), or its diagonal (C, D), and its divergence (C, D) at x."""
        return self._problem.metric(x)

    def gauss_newton(self, x: Tensor, *, last_layer: bool, full: bool) -> contract.GaussNewton:
        """Return the factors of the Gauss-Newton matrix on all the data at x, and the precision of the prior."""
        return self._problem.gauss_newton(x, last_layer=last_layer, full=full)

    @property
    def layout(self) -> Layout:
        """The problem's layout, which exists if its task provides it."""
        assert self._problem.layout is not None
        return self._problem.layout

    @property
    def full(self) -> BoundPotential:
        """U on all the data."""
        return BoundPotential(self._problem, self.terms)


class CountingPotential(BoundPotential):
    """A bound potential that counts gradient calls, those on the batch and those on all the data.

    A step with several batches (`batches_per_step`) is bound to all of them, "0/name", "1/name" and so on, and its
    calls go through them in order. With the `shape` of theta, a call is one gradient for each chain. A call at another
    shape raises `PluginError`, and so does a call that torch would batch, differentiate or record, because it could
    compute more gradients than the one that is counted.
    """

    def __init__(
        self,
        problem: Problem,
        terms: int,
        batch: Batch | None = None,
        *,
        shape: tuple[int, ...] | None = None,
        owner: str = "the sampler",
        batches: int = 1,
        calls_per_batch: int = 1,
    ) -> None:
        super().__init__(problem, terms, batch)
        self.calls = 0
        self.batches, self.calls_per_batch = batches, calls_per_batch
        self.shape, self.owner = shape, owner
        self._admit: Gate = _gate(shape, owner)
        self._full: CountingPotential | None = None

    def on(self, batch: Batch | None, shape: tuple[int, ...] | None) -> CountingPotential:
        """Return the same potential on another batch, for theta of another shape; it has counts of its own."""
        return CountingPotential(
            self._problem, self.terms, batch, shape=shape, owner=self.owner,
            batches=self.batches, calls_per_batch=self.calls_per_batch,
        )  # fmt: skip

    def draw_batches(self, steps: int) -> Batch:
        """Return the batches of the next steps, (steps, C, ...) by name; "b/name" in batch b if a step has several.

        For one step they are drawn one by one, because those of a network on a GPU may differ in size.
        """
        if self.batches == 1:
            return self._problem.draw_batches(steps)
        if steps == 1:
            each = [self._problem.draw_batches(1) for _ in range(self.batches)]
        else:
            drawn = self._problem.draw_batches(steps * self.batches)
            each = [
                {name: leaf[b :: self.batches].contiguous() for name, leaf in drawn.items()}
                for b in range(self.batches)
            ]
        return {f"{b}/{name}": leaf for b, batch in enumerate(each) for name, leaf in batch.items()}

    def _batch_of_call(self) -> Batch | None:
        """Count a call, and return its batch."""
        number, batch = self.calls, self.batch
        self.calls = number + 1
        if batch is None or self.batches == 1:
            return batch
        prefix = f"{number // self.calls_per_batch % self.batches}/"
        return {name.removeprefix(prefix): leaf for name, leaf in batch.items() if name.startswith(prefix)}

    def grad(self, x: Tensor) -> Tensor:
        """Return grad U (C, D) at x, counted."""
        self._admit(x)
        return self._problem.gradient(x, self._batch_of_call())

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return U (C,) and grad U (C, D) at x, counted."""
        self._admit(x)
        return self._problem.energy_and_gradient(x, self._batch_of_call())

    def scores(self, x: Tensor) -> Tensor:
        """Return the gradients of the likelihood terms (C, n, D) at x, counted as one."""
        self._admit(x)
        return self._problem.scores(x, self._batch_of_call())

    def metric(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the inverse metric (C, D, D), or its diagonal (C, D), and its divergence (C, D) at x; not counted."""
        self._admit(x)
        return self._problem.metric(x)

    def gauss_newton(self, x: Tensor, *, last_layer: bool, full: bool) -> contract.GaussNewton:
        """Return what `harness.Potential.gauss_newton` does, counted as a call on all the data."""
        self._admit(x)
        self.full.calls += 1
        return super().gauss_newton(x, last_layer=last_layer, full=full)

    @property
    def full(self) -> CountingPotential:
        """U on all the data, counted separately."""
        if self._full is None:
            self._full = full = self.on(None, self.shape)
            full._full = full  # noqa: SLF001 - an object of this class
        return self._full

    def take_counts(self) -> tuple[int, int]:
        """Return the calls on the batch and on all the data since this was last called, and restart counting."""
        full = self.full
        counts = self.calls, full.calls
        self.calls = full.calls = 0
        return counts

    def end(self) -> None:
        """Refuse all later calls, because they are not counted."""

        def refuse(_: Tensor) -> None:
            raise PluginError(
                f"{self.owner} calls a potential{_call_site()} after its call has ended; "
                "use the one that is passed to each call"
            )

        self._admit = self.full._admit = refuse  # noqa: SLF001 - an object of this class


def _gate(shape: tuple[int, ...] | None, owner: str) -> Gate:
    """Return a function that raises `PluginError` if a call at x could compute more than one gradient per chain."""
    if shape is None:
        return lambda _: None
    import torch
    from torch._C import _functorch, _get_tracing_state, _len_torch_dispatch_stack, _len_torch_function_stack
    from torch.autograd import forward_ad

    plain, batched = torch.Tensor, _functorch.is_batchedtensor
    compiling = torch.compiler.is_compiling()  # compiling is a torch mode itself
    modes = functions = 0
    if not compiling:
        modes, functions = _len_torch_dispatch_stack(), _len_torch_function_stack()

    def admit(x: Tensor) -> None:
        if type(x) is not plain or x.shape != shape or x.is_complex():
            what = (
                f"a {'complex ' * x.is_complex()}tensor of shape {tuple(x.shape)}"
                if type(x) is plain
                else f"a {type(x).__name__}"
            )
            where = "" if compiling else _call_site()
            raise PluginError(
                f"{owner} asks for a gradient at {what}{where}; a call costs one gradient a chain, so x must be a "
                f"real tensor of theta's shape {tuple(shape)}: make a call for each further position, and declare "
                "them all in gradients_per_step"
            )
        if (
            x.requires_grad
            or batched(x)
            or forward_ad._current_level >= 0  # noqa: SLF001 - torch has no public way to ask
            or (
                not compiling
                and (
                    _len_torch_dispatch_stack() > modes
                    or _len_torch_function_stack() > functions
                    or _get_tracing_state() is not None
                )
            )
        ):
            where = "" if compiling else _call_site()
            raise PluginError(
                f"{owner} asks for a gradient{where} within vmap, automatic differentiation or a mode of torch, which "
                "could make several of it; call the potential outside of them, at a tensor that does not require grad"
            )

    return admit


def _call_site() -> str:
    """Return the place of a plugin's call: the innermost frame that is neither the harness's nor torch's."""
    import torch

    ours = tuple(f"{Path(str(module.__file__)).parent}{os.sep}" for module in (harness, torch))
    frame = sys._getframe(1)  # noqa: SLF001 - the frames of a traceback, without raising
    while frame is not None and frame.f_code.co_filename.startswith(ours):
        frame = frame.f_back  # type: ignore[assignment]
    return f" ({frame.f_code.co_filename}:{frame.f_lineno})" if frame else ""
