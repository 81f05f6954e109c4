"""Calls to torch's global generator in the code of another library, answered from the chains' own streams."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from harness import Noise, PluginError

Draw = Callable[[str, Tensor], Tensor]
"""A function that returns numbers of a kind, "normal" or "uniform", with the shape and dtype of a tensor."""

REFUSED = frozenset(
    """bernoulli bernoulli_ binomial cauchy_ exponential_ geometric_ log_normal_ multinomial poisson rand_like_
    randint randint_like randperm random_ rrelu rrelu_ dropout dropout1d dropout2d dropout3d alpha_dropout
    feature_dropout feature_alpha_dropout native_dropout manual_seed seed""".split()  # noqa: SIM905 - a list of names
)


class ChainRandomness(TorchFunctionMode):
    """A mode in which normal and uniform numbers come from `draw`; other randomness raises `PluginError`."""

    def __init__(self, of: str, draw: Draw) -> None:
        super().__init__()
        self.of = of
        self.draw = draw

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        answer = ANSWERS.get(name)
        if name in REFUSED or (answer and kwargs.get("generator") is not None):
            raise PluginError(
                f"{self.of}: it calls torch's {name}{' with a generator of its own' if answer else ''}; chains have "
                f"streams of random numbers for {', '.join(sorted(ANSWERS))} without a generator only"
            )
        return answer(self.draw, *args, **kwargs) if answer else func(*args, **kwargs)


def ask(noise: Noise, kind: str, like: Tensor) -> Tensor:
    """Return numbers with the shape of a tensor whose first axis is the chains; normals are 0 at T = 0."""
    return noise.normal(like).expand_as(like) if kind == "normal" else noise.uniform(like.shape).to(like.dtype)


def each(of: str, noise: Noise, chains: int, *, together: bool) -> Iterator[tuple[int | slice, ChainRandomness]]:
    """Yield, for each chain, its index into arrays (C, ...) and the randomness of its step.

    If chains step `together`, yield one slice and one randomness for all of them.

    If chains step one after the other, the first one requests the numbers of all.
    """
    if together:
        yield slice(None), ChainRandomness(of, lambda kind, like: ask(noise, kind, like))
        return
    drawn: list[Tensor] = []
    for chain in range(chains):
        yield chain, ChainRandomness(of, _drawn(noise, chains, chain, drawn))


def _drawn(noise: Noise, chains: int, chain: int, drawn: list[Tensor]) -> Draw:
    calls = itertools.count()

    def draw(kind: str, like: Tensor) -> Tensor:
        call = next(calls)
        if call == len(drawn):
            drawn.append(ask(noise, kind, like.expand(chains, *like.shape)))
        return drawn[call][chain]

    return draw


def _like(kind: str) -> Callable[..., Tensor]:
    """Return the answer to `torch.randn_like` or `torch.rand_like`."""
    return lambda draw, like, *, dtype=None, **_: draw(kind, torch.empty_like(like, dtype=dtype, requires_grad=False))


def _of_shape(kind: str) -> Callable[..., Tensor]:
    """Return the answer to `torch.randn` or `torch.rand`."""

    def drawn(draw: Draw, *size: Any, **how: Any) -> Tensor:
        kept = {name: value for name, value in how.items() if name not in {"generator", "requires_grad"}}
        return draw(kind, torch.empty(*size, **kept))

    return drawn


def _normal(draw: Draw, mean: Any = 0.0, std: Any = 1.0, size: Any = None, **how: Any) -> Tensor:
    how.pop("generator", None)
    like = torch.empty(size, **how) if size is not None else torch.as_tensor(mean + 0 * std)
    return mean + std * draw("normal", like)


def _normal_(draw: Draw, tensor: Tensor, mean: float = 0.0, std: float = 1.0, **_: None) -> Tensor:
    return tensor.copy_(mean + std * draw("normal", tensor))


def _uniform_(draw: Draw, tensor: Tensor, low: float = 0.0, high: float = 1.0, **_: None) -> Tensor:
    return tensor.copy_(low + (high - low) * draw("uniform", tensor))


ANSWERS: dict[str, Callable[..., Tensor]] = {
    "randn_like": _like("normal"), "rand_like": _like("uniform"), "randn": _of_shape("normal"),
    "rand": _of_shape("uniform"), "normal": _normal, "normal_": _normal_, "uniform_": _uniform_,
}  # fmt: skip
