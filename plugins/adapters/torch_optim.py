"""Torch optimisers, or classes with the interface of torch.optim, as rows beside samplers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch._dynamo  # the first optimiser would import it, which changes the environment and the filters of warnings

from harness import Noise, PluginError, Potential, Sampler

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

    State = dict[str, Tensor]


def _in_torch(
    sampler: TorchOptim, theta: Tensor, memory: dict[str, Any], g: Tensor, h: Tensor
) -> tuple[Tensor, dict[str, Any]]:
    """Apply the declared rule at T = 0: one optimiser per chain, kept from step to step as in a training script."""
    kept = memory.setdefault("kept", [sampler.new_optimiser(row, h, 0 * h) for row in theta])
    for optimiser, row, gradient in zip(kept, theta, g, strict=True):
        (group,) = optimiser.param_groups
        group["lr"] = float(h)
        with torch.no_grad():
            group["params"][0].copy_(row)
        group["params"][0].grad = gradient.clone()
        optimiser.step()
    return torch.stack([optimiser.param_groups[0]["params"][0].detach().clone() for optimiser in kept]), memory


@dataclass(frozen=True, kw_only=True)
class TorchOptim(Sampler):
    """A torch optimiser that minimises U: each chain is a parameter (D,) with an optimiser of its own.

        class NAdam(TorchOptim):
            elementwise = True

            def optimiser(self, groups):
                return torch.optim.NAdam(groups)

    If each coordinate moves independently (`elementwise`: SGD, Adam and its relatives, RMSprop, Adagrad; not
    Adafactor), all chains are one parameter (C, D), which gives the same numbers some ten times as fast.

    h is the learning rate and the gradient is grad U, that of the full-data sum. So a learning rate for the mean loss
    U/N is divided by N for optimisers like SGD, whose step is h times the gradient (`step_unit = -1`). For those that
    divide the gradient by its size (`step_unit = 0`, the default) it applies as it is, with epsilon times N. The prior
    is part of U: `weight_decay` must be 0. A step has one gradient: an optimiser that needs a closure, or sparse
    gradients, raises `PluginError`. T is in the parameter group, as "temperature", for an optimiser that adds noise:
    the numbers that it draws from torch's global generator come from the chains' streams. It also declares
    `limit_bias`.

    State: that of the optimiser, starting with the values that its first step would set. If the first step differs from
    the others, as for SGD with dampening, it is therefore a step from zero. With the law `TorchOptimLaw` of
    `plugins.adapters.laws`, `bench check` allows for the optimiser's count of steps.
    """

    elementwise: ClassVar[bool] = False
    step_unit: ClassVar[int] = 0
    zero_temperature: ClassVar[Any] = _in_torch
    exempt: ClassVar[Mapping[str, str]] = {"compiled": "a torch optimiser changes tensors in place"}

    @abstractmethod
    def optimiser(self, groups: Iterable[dict[str, Any]]) -> Optimizer:
        """Return the optimiser of these parameter groups, which contain their learning rate."""

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> State:
        """Return the values that the optimiser's first step sets its entries to, before it changes them."""
        from plugins.adapters.randomness import ChainRandomness

        states = []
        for chain, row in enumerate(theta):
            optimiser, parameter = self._of_chain(row, h, T, chain)
            first = optimiser.state[parameter] = _First()
            parameter.grad = torch.zeros_like(row)
            with ChainRandomness(type(self).__name__, lambda _, like: torch.zeros_like(like)):
                self._take_a_step(optimiser)
            states.append({**self._entries(optimiser, parameter), **first.values_set})
        return {entry: _of_theta(torch.stack([of[entry] for of in states]), theta) for entry in states[0]}

    def step(
        self, theta: Tensor, state: State, potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, State]:
        from plugins.adapters.randomness import each

        g = potential.grad(theta)
        together = self.elementwise and not h.dim() + T.dim()
        moved, states = [], []
        for chain, randomness in each(type(self).__name__, noise, len(theta), together=together):
            optimiser, parameter = self._of_chain(theta[chain], h, T, chain)
            optimiser.state[parameter] = {
                entry: _of_torch(leaf[0] if together and leaf.dim() == 1 else leaf[chain])  # equal counts in all chains
                for entry, leaf in state.items()
            }
            parameter.grad = g[chain].clone()
            settings = _settings(optimiser)
            with randomness:
                self._take_a_step(optimiser)
            if _settings(optimiser) != settings:
                raise PluginError(
                    f"{type(self).__name__}: {type(optimiser).__name__} changes its parameter group in a step, and "
                    "each step starts with a new one; keep what changes in the state of the parameter"
                )
            moved.append(parameter.detach())
            states.append(self._entries(optimiser, parameter))
        if together:
            leaves = {entry: leaf if leaf.dim() > 1 else leaf.expand(len(theta)) for entry, leaf in states[0].items()}
        else:
            leaves = {entry: torch.stack([of[entry] for of in states]) for entry in states[0]}
        new = {entry: _of_theta(leaf, theta) for entry, leaf in leaves.items()}
        return moved[0] if together else torch.stack(moved), new

    def limit_bias(self) -> float | None:
        return 0.0

    def new_optimiser(self, parameter: Tensor, h: Tensor, T: Tensor) -> Optimizer:
        """Return the optimiser of a copy of one chain, or of all chains, before its first step.

        Raise `PluginError` if torch refuses to make it, if it is something else, or if it has a weight decay.
        """
        group = {"params": [parameter.clone().requires_grad_()], "lr": float(h), "temperature": float(T)}
        try:
            optimiser = self.optimiser([group])
        except (TypeError, ValueError) as error:
            raise PluginError(f"{type(self).__name__}: torch refuses to make it: {error}") from error
        if not isinstance(optimiser, torch.optim.Optimizer):
            raise PluginError(
                f"{type(self).__name__}: optimiser() returned {optimiser!r:.80}, not a torch.optim.Optimizer"
            )
        if optimiser.param_groups[0].get("weight_decay"):
            raise PluginError(
                f"{type(self).__name__}: {type(optimiser).__name__} has a weight_decay, and the prior belongs to the "
                "task; give weight_decay=0"
            )
        return optimiser

    def _of_chain(self, theta: Tensor, h: Tensor, T: Tensor, chain: int | slice) -> tuple[Optimizer, Tensor]:
        """Return the optimiser of a chain with its own h and T, and its parameter."""
        optimiser = self.new_optimiser(theta, *(number[chain, 0] if number.dim() else number for number in (h, T)))
        return optimiser, optimiser.param_groups[0]["params"][0]

    def _take_a_step(self, optimiser: Optimizer) -> None:
        try:
            optimiser.step()
        except (TypeError, RuntimeError) as error:
            raise PluginError(
                f"{type(self).__name__}: a step of {type(optimiser).__name__} failed ({error}); it gets one dense "
                "gradient a step, and can have no closure"
            ) from error

    def _entries(self, optimiser: Optimizer, parameter: Tensor) -> State:
        """Return the optimiser's state of a parameter; raise `PluginError` if a checkpoint cannot hold it."""
        entries = {name: value for name, value in optimiser.state[parameter].items() if value is not None}
        for name, value in entries.items():
            where = f"{type(self).__name__}: {name!r} in the state of {type(optimiser).__name__}"
            if not isinstance(value, torch.Tensor):
                raise PluginError(f"{where} is not a tensor, so that no checkpoint can hold it")
            if self.elementwise and value.shape not in {torch.Size(()), parameter.shape}:
                raise PluginError(
                    f"{where} has the shape {tuple(value.shape)}, not that of the parameter: coordinates do not move "
                    "by themselves; set elementwise = False"
                )
        return {name: value.detach().clone() for name, value in entries.items()}


class _First(dict[str, Any]):
    """The state of a parameter, which also records the first value of each tensor in it."""

    def __init__(self) -> None:
        super().__init__()
        self.values_set: State = {}

    def __setitem__(self, entry: str, value: Any) -> None:
        if isinstance(value, torch.Tensor) and entry not in self.values_set:
            self.values_set[entry] = value.detach().clone()
        super().__setitem__(entry, value)


def _of_torch(entry: Tensor) -> Tensor:
    """Return an entry as torch keeps it: scalar floats, such as counts of steps, in float32."""
    return entry.to(torch.float32) if entry.dim() == 0 and entry.is_floating_point() else entry.clone()


def _of_theta(leaf: Tensor, theta: Tensor) -> Tensor:
    """Return an entry of all chains as the harness keeps it, in memory of its own."""
    return leaf.to(theta.dtype, copy=True) if leaf.is_floating_point() else leaf.clone()


def _settings(optimiser: Optimizer) -> dict[str, Any]:
    (group,) = optimiser.param_groups
    return {name: value for name, value in group.items() if name != "params"}
