"""Law 15: with all curvatures equal, a sampler treats all coordinates alike, in few dimensions and in many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from harness import Sampler, linear
from harness.tasks import Streams
from plugins.checking.law import Broken, Law, State, distance, random_script, safe_x

DIMS = (24, 1009, 100_003)
DIMS_OF_MATRICES = (24, 211)
"""Dimensions for samplers that hold, or need, matrices as large as the square of the dimension."""

STEPS = 3
TOLERANCE = 1e-9
"""Sums over the coordinates may be taken in another order."""


@dataclass(frozen=True)
class StepInputs:
    """The inputs of the steps: position, slopes and noise, with coordinates last in each."""

    theta: Tensor
    slopes: Sequence[Tensor]
    noise: Sequence[Sequence[Tensor]]
    """Of `init`, then of each step."""

    kinds: Sequence[Sequence[str]]
    """"normal" or "uniform", in the same order."""

    def silent(self) -> StepInputs:
        """Return the same numbers with all normal numbers 0."""
        noise = [
            [0 * x if kind == "normal" else x for x, kind in zip(numbers, kinds, strict=True)]
            for numbers, kinds in zip(self.noise, self.kinds, strict=True)
        ]
        return replace(self, noise=noise)

    def permuted(self, order: Tensor) -> StepInputs:
        """Return the same numbers with the coordinates in another order."""
        D = len(order)
        noise = [[x[..., order] if x.shape[-1] == D else x for x in numbers] for numbers in self.noise]
        return replace(self, theta=self.theta[:, order], slopes=[b[:, order] for b in self.slopes], noise=noise)

    def apart(self) -> StepInputs:
        """Return the same numbers with each coordinate as a chain of its own: (1, D) becomes (D, 1)."""
        noise = [[x.T for x in numbers] for numbers in self.noise]
        return replace(self, theta=self.theta.T, slopes=[b.T for b in self.slopes], noise=noise)


def check(sampler: Sampler) -> None:
    """Check that a sampler that updates coordinates independently does so in every dimension.

    For other samplers, swapping coordinates must swap the path, or only the covariance of its noise if that goes
    through a root of a matrix. A sampler is exempt if coordinates differ by intent, by the order in which it visits
    them or by a matrix of its own.
    """
    alone = independent(sampler)
    silent = not alone and rooted(sampler)
    for D in DIMS_OF_MATRICES if _holds_matrices(sampler) else DIMS:
        numbers = _numbers(sampler, D)
        numbers = numbers.silent() if silent else numbers
        path = _path(sampler, numbers)
        if alone:
            gap = distance(path, _path(sampler, numbers.apart()).mT)
            what = "coordinates are no longer updated independently"
        else:
            order = torch.randperm(D, generator=_generator("order"))
            gap = distance(_path(sampler, numbers.permuted(order)), path[..., order])
            what = "reordering the coordinates changes the path"
        if not gap < TOLERANCE:
            raise Broken(f"in {D:,} dimensions {what} (difference {gap:.2g})")


def independent(sampler: Sampler) -> bool:
    """Return whether each coordinate moves as it would alone: then D dimensions are D copies of one."""
    return all(_each_alone(sampler, _numbers(sampler, D)) for D in (3, DIMS[0]))


def _holds_matrices(sampler: Sampler) -> bool:
    """Return whether the state, or what the sampler needs, is as large as the square of the dimension."""
    few, many = (sum(leaf.numel() for leaf in _start(sampler, _numbers(sampler, D)).values()) for D in (24, 48))
    return many > 3 * few or bool(sampler.needs - {"terms"})


def rooted(sampler: Sampler) -> bool:
    """Return whether noise goes through a root of a matrix: in another order it differs, with the same covariance."""
    D = DIMS[0]
    numbers, order = _numbers(sampler, D), torch.randperm(D, generator=_generator("order"))
    if distance(_path(sampler, numbers.permuted(order)), _path(sampler, numbers)[..., order]) < TOLERANCE:
        return False
    covariances = []
    for given in (numbers, numbers.permuted(order)):
        answers = _answers_to_unit_noise(sampler, given)
        covariances.append(answers.T @ answers)
    return distance(covariances[1], covariances[0][order][:, order]) < TOLERANCE


def _answers_to_unit_noise(sampler: Sampler, numbers: StepInputs) -> Tensor:
    """Return the effect (numbers, D) of each normal number of a step on theta."""
    h, T = _step(sampler)
    silent = numbers.silent()
    state = _start(sampler, silent)
    potential = _Round(silent.slopes[0])
    answers = []
    with torch.no_grad():
        still, _ = sampler.step(silent.theta, dict(state), potential, h, T, linear.ScriptedNoise(silent.noise[1]))
        for slot, request in enumerate(silent.noise[1]):
            if numbers.kinds[1][slot] != "normal":
                continue
            for i in range(request.numel()):
                unit = [x.clone() for x in silent.noise[1]]
                unit[slot].view(-1)[i] = 1.0
                moved, _ = sampler.step(silent.theta, dict(state), potential, h, T, linear.ScriptedNoise(unit))
                answers.append((moved - still)[0])
    return torch.stack(answers)


def _each_alone(sampler: Sampler, numbers: StepInputs) -> bool:
    """Return whether each coordinate moves as it would alone."""
    if any(x.shape != numbers.theta.shape for request in numbers.noise for x in request):
        return False
    try:
        alone = _path(sampler, numbers.apart())
    except (IndexError, RuntimeError):  # noise of another meaning has theta's shape in this number of dimensions
        return False
    return distance(alone.mT, _path(sampler, numbers)) < TOLERANCE


def _numbers(sampler: Sampler, D: int) -> StepInputs:
    """Return random numbers for `init` and STEPS steps of one chain."""
    asked = linear.ScriptedNoise(), linear.ScriptedNoise()
    theta = torch.randn((1, D), generator=_generator("theta"), dtype=torch.float64)
    potential = _Round(torch.zeros_like(theta))
    h, T = _step(sampler)
    with torch.no_grad():
        state = sampler.init(theta, potential, h, T, asked[0])
        sampler.step(theta, dict(state), potential, h, T, asked[1])
    generator = _generator("noise")
    slots = [asked[min(k, 1)].slots for k in range(STEPS + 1)]
    return StepInputs(
        theta,
        [0.5 * torch.randn((1, D), generator=generator, dtype=torch.float64) for _ in range(STEPS)],
        [random_script(request, 1, generator) for request in slots],
        [[slot.kind for slot in request] for request in slots],
    )


def _start(sampler: Sampler, numbers: StepInputs) -> State:
    """Return the state before the first step."""
    potential = _Round(numbers.slopes[0])
    with torch.no_grad():
        return sampler.init(numbers.theta, potential, *_step(sampler), linear.ScriptedNoise(numbers.noise[0]))


def _path(sampler: Sampler, numbers: StepInputs) -> Tensor:
    """Return the positions (STEPS, C, D) that result from the numbers."""
    theta, state = numbers.theta, _start(sampler, numbers)
    path = []
    with torch.no_grad():
        for slope, noise in zip(numbers.slopes, numbers.noise[1:], strict=True):
            theta, state = sampler.step(theta, dict(state), _Round(slope), *_step(sampler), linear.ScriptedNoise(noise))
            path.append(theta)
    return torch.stack(path)


class _Round(linear.QuadraticPotential):
    """The potential with all curvatures 1, which sums over many coordinates at once."""

    def __init__(self, slope: Tensor) -> None:
        super().__init__(torch.ones(slope.shape[1], dtype=torch.float64), slope)

    def energy(self, x: Tensor) -> Tensor:
        """Return U (C,)."""
        terms = x.square() / 2
        return (terms if self.slope is None else terms + self.slope * x).sum(1)


def _step(sampler: Sampler) -> tuple[Tensor, Tensor]:
    return torch.tensor(safe_x(sampler, 0.1), dtype=torch.float64), torch.tensor(1.0, dtype=torch.float64)


def _generator(name: str) -> torch.Generator:
    return Streams(0, 0, ("coordinates",)).torch(name)


LAW = Law(
    15, "coordinates", check,
    "noise or a drift that some coordinates miss or share, or a branch on the number of parameters",
)  # fmt: skip
