"""The laws for tasks. Each is a function of a task that raises `AssertionError` if the law does not hold.

The message says what is wrong, by how much, and the usual cause. A law that does not apply to a task raises `Skip`.
Tasks are tested with a few chains on CPU; a task with data needs its data.
"""

from __future__ import annotations

import dataclasses
import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from harness import Noise, Potential, Sampler
from harness.contracts import check, data, schema
from harness.engine import Loop
from harness.runs import undeclared
from harness.system import write_whole
from harness.tasks import DataProblem, Problem, Streams, Task
from plugins.checking.gaussian import Batch
from plugins.checking.law import CHAINS, Skip, built, distance, in_batches, in_both_modes, streams, trajectory
from plugins.checking.routes import RouteEstimate, importance_sampling, quadrature
from plugins.checking.task_observers import law_blocks_do_not_matter, law_weights_count

NOISY_STEPS = 4000
STEPS = 5
NEAR = 1e-6
ROWS = (0, 1, 2, 3)
ALONE = 2
"""The chain that is drawn alone, too."""
LEVEL = 5.0
"""Standard errors that a Monte Carlo comparison may be off: one false alarm in a million numbers."""


def law_mean_of_batches(task: Task) -> None:
    """The mean of the stochastic gradients is the full gradient: exactly over an epoch, otherwise within noise.

    This holds in every order of minibatches. Those with replacement have no epochs, and few of them see a row that
    alone has a covariate; their mean is compared along the full gradient.
    """
    minibatched = in_batches(task)
    for order in minibatched.batch_orders() or ("shuffled",):
        _mean_of_batches(minibatched, order)


def _mean_of_batches(minibatched: Task, order: str) -> None:
    problem = built(minibatched, order=order)
    theta = problem.initial()
    full = problem.gradient(theta, None)
    exact = minibatched.batch_terms() < minibatched.terms() and order != "replaced"
    steps = minibatched.steps_per_epoch() if exact else NOISY_STEPS // (10 if minibatched.opaque else 1)
    batches = problem.draw_batches(steps)
    if not batches:
        raise Skip("U is exact: there are no batches")
    each = torch.stack([problem.gradient(theta, _at(batches, k)) for k in range(steps)])
    if order == "replaced":
        each, full = ((x * full).sum(-1) / full.norm(dim=1) for x in (each, full))
    error = (each.mean(0) - full).abs()
    noise = 0.0 if exact else LEVEL * each.std(0) / math.sqrt(steps)
    allowed = noise + 1e-9 * (1 + full.abs())
    excess = float((error / allowed).max())
    assert excess <= 1, (
        f"the mean of {steps} stochastic gradients ({order}) is off the full gradient by {float(error.max()):.3g}, "
        f"{excess:.3g} times what is allowed; usual causes: a factor N/n that is wrong for the last, short batch, "
        "a prior scaled with the batch, batches that are not a partition of the epoch, gradient noise with a mean"
    )


def law_gradient_is_that_of_the_energy(task: Task) -> None:
    """Central differences of U agree with grad U, on all the data and on a batch."""
    problem = built(in_batches(task))
    theta = problem.initial()
    batches = problem.draw_batches(1)
    generator = torch.Generator().manual_seed(0)
    for batch in [None, _at(batches, 0)] if batches else [None]:
        direction = torch.randn(theta.shape, generator=generator, dtype=theta.dtype)
        slope = (problem.gradient(theta, batch) * direction).sum(1)
        scale = problem.energy(theta, batch).abs() + slope.abs() + 1
        limit = max(1e-5, 100 * torch.finfo(theta.dtype).eps ** (2 / 3))
        worst = math.inf
        for share in (1, 0.1, 0.01, 0.001):  # 1 is best where U is smooth; the others miss the kinks of a network
            width = share * torch.finfo(theta.dtype).eps ** (1 / 3) * (1 + theta.abs().amax())
            ahead, behind = (problem.energy(theta + sign * width * direction, batch) for sign in (1, -1))
            error = ((ahead - behind) / (2 * width) - slope).abs()
            worst = min(worst, float((error / scale).max()))
            if worst < limit:
                break
        where = "all the data" if batch is None else "a batch"
        assert worst < limit, (
            f"on {where}, grad U differs from the slope of U by {worst:.3g} of their size (limit {limit:.1g}); usual "
            "causes: a term that only one of them has, another factor, a sign"
        )
        value, gradient = problem.energy_and_gradient(theta, batch)
        assert torch.allclose(value, problem.energy(theta, batch)), "energy_and_gradient gives another U"
        assert torch.allclose(gradient, problem.gradient(theta, batch)), "energy_and_gradient gives another grad U"


def law_prior_counted_once(task: Task) -> None:
    """Far from the origin U grows as the declared prior does, on all the data and on every batch of an epoch.

    If U uses the precision that the task declares, two values of it are compared instead, because the likelihood of a
    network grows too. On a batch without rows, which a `DataTask` may be given, U is the prior alone.
    """
    precision = task.prior_precision
    if precision is None:
        raise Skip("the task declares no `prior_precision`, the precision of a normal prior")
    minibatched = in_batches(task)
    problem = built(minibatched)
    theta = problem.initial()
    batches = problem.draw_batches(minibatched.steps_per_epoch())
    cases = [None, *(_at(batches, k) for k in range(minibatched.steps_per_epoch()))] if batches else [None]
    other: Problem | None = built(_of_precision(minibatched, precision + 1))
    if other is not None and float(_priors(problem, other, theta, None).abs().max()) < 1e-3:
        other = None  # the precision is written into U, and not read from the task
    if problem.under_normal_prior is not None:
        theta = theta * problem.under_normal_prior
    if isinstance(problem, DataProblem) and "index" in batches:
        alone = _without_rows(problem, theta, batches) - _without_rows(problem, 0 * theta, batches)
        extra = float((2 * alone / theta.square().sum(1) - precision).abs().max())
        assert extra < 1e-3 * (1 + precision), (
            f"on a batch without rows U grows as a prior whose precision differs by {extra:.3g} from the declared one, "
            f"{precision:.3g}; usual causes: a second prior beside the declared one, weight decay beside a prior"
        )
    far = 1e8 * theta / theta.norm(dim=1, keepdim=True)
    for batch in cases:
        if other is None:
            counted = (problem.energy(far, batch) + problem.energy(-far, batch)) / 1e16 / precision
        else:
            counted = _priors(problem, other, theta, batch)
        error = float((counted - 1).abs().max())
        if other is None and batch is None and error > 2:
            raise Skip(
                f"far out U grows {float(counted.mean()):.3g} times as fast as the prior, by its likelihood it seems, "
                "and the precision in U does not go by `prior_precision`: let U read it from the task"
            )
        where = "all the data" if batch is None else "a batch"
        assert error < 1e-3, (
            f"on {where} the prior is counted {float(counted.mean()):.3g} times; usual causes: weight decay "
            "beside a prior, a prior inside the sum over the batch"
        )


def _without_rows(problem: DataProblem, theta: Tensor, batches: Batch) -> Tensor:
    """Return U (C,) on a batch in which no place has a row."""
    batch = _at(batches, 0)
    return problem.energy(theta, batch | {"index": batch["index"] * 0 + problem.terms})


def _priors(problem: Problem, other: Problem, theta: Tensor, batch: Batch | None) -> Tensor:
    """Return how often (C,) the prior is counted, from two problems whose prior precisions differ by 1."""
    return 2 * (other.energy(theta, batch) - problem.energy(theta, batch)) / theta.square().sum(1)


def _of_precision(task: Task, precision: float) -> Task:
    """Return the task with another `prior_precision`, which may be a setting or an attribute of the class."""
    if "prior_precision" in {field.name for field in dataclasses.fields(task)}:
        return dataclasses.replace(task, prior_precision=precision)  # type: ignore[call-arg]
    kind = type(type(task).__name__, (type(task),), {"prior_precision": precision})
    return kind(**{field.name: getattr(task, field.name) for field in dataclasses.fields(task) if field.init})


def law_batch_sizes_agree(task: Task) -> None:
    """The mean gradient of an epoch does not depend on the batch size."""
    if "batch" not in {field.name for field in dataclasses.fields(task)}:
        raise Skip("the task has no setting `batch`")
    sizes = [max(1, task.terms() // parts) for parts in (5, 11)]
    theta = built(task).initial()
    means = []
    for size in sizes:
        smaller = dataclasses.replace(task, batch=size)  # type: ignore[call-arg]
        assert smaller.batch_terms() == size, f"batch={size}, but batch_terms() is {smaller.batch_terms()}"
        problem, steps = built(smaller), smaller.steps_per_epoch()
        batches = problem.draw_batches(steps)
        means.append(torch.stack([problem.gradient(theta, _at(batches, k)) for k in range(steps)]).mean(0))
    error = float((means[0] - means[1]).abs().max() / (1 + means[0].abs().max()))
    assert error < 1e-9, (
        f"epochs of batches of {sizes[0]} and of {sizes[1]} have mean gradients that differ by {error:.3g} of their "
        "size; usual cause: a gradient scaled by N/n where the last batch is short"
    )


def law_truth_by_another_route(task: Task) -> None:
    """The stated mean and covariance agree with quadrature (D <= 2) or importance sampling of the task's own U.

    The mean and the sd along every direction of the truth are compared.
    """
    truth = task.truth()
    if truth is None:
        raise Skip("the task states no truth")
    route: RouteEstimate = quadrature(task, truth) if task.dim() <= 2 else importance_sampling(task, truth)
    along = truth.directions
    sd = np.sqrt((along @ truth.covariance * along).sum(axis=1))
    # Bounds of the truth's own errors, which the truth states for the coordinates only.
    truth_errors = np.abs(along) @ truth.mean_mcse, sd * (truth.sd_mcse / truth.sd).max()
    errors = {
        "mean": (route.mean - along @ truth.mean, np.hypot(route.mean_error, truth_errors[0])),
        "sd": (route.sd - sd, np.hypot(route.sd_error, truth_errors[1])),
    }
    for name, (error, spread) in errors.items():
        excess = np.abs(error) / (LEVEL * spread + 1e-6 * sd)
        worst = int(excess.argmax())
        assert excess[worst] <= 1, (
            f"the stated {name} along {np.array2string(along[worst], precision=2, threshold=6)} is off by "
            f"{abs(error[worst]) / sd[worst]:.3g} sd from {route.how}, {excess[worst]:.3g} times what chance allows; "
            "usual causes: a covariance without its correlations, another prior, other standardisation, a truth made "
            "for an older version of the task"
        )


def law_state_restores_the_batches(task: Task) -> None:
    """A problem restored from `state` draws the same batches as the original one draws next, in every order."""
    minibatched = in_batches(task)
    for order in minibatched.batch_orders() or ("shuffled",):
        _state_restores(minibatched, order)


def _state_restores(minibatched: Task, order: str) -> None:
    first, second = (built(minibatched, order=order) for _ in range(2))
    if not first.draw_batches(1):
        raise Skip("U is exact: there are no batches")
    first.draw_batches(3 * minibatched.steps_per_epoch() + 3)  # on the way back of a symmetric order
    saved = {name: leaf.clone() for name, leaf in first.state().items()}
    wrong = [name for name, leaf in saved.items() if leaf.ndim < 1 or len(leaf) != CHAINS]
    assert not wrong, f"state entries {wrong} do not have the chains as their leading axis"
    expected = first.draw_batches(40)
    second.load(saved)
    resumed = second.draw_batches(40)
    same = {name: torch.equal(leaf, resumed[name]) for name, leaf in expected.items()}
    assert all(same.values()), (
        f"after load, {same} (name: equal; {order}); usual causes: a generator or the place left out"
    )


def law_chains_do_not_interact(task: Task) -> None:
    """A chain that is not finite leaves U and grad U of the others unchanged, bit for bit."""
    problem = built(in_batches(task))
    theta = problem.initial()
    batches = problem.draw_batches(1)
    batch = _at(batches, 0) if batches else None
    lost = theta.clone()
    lost[0] = float("nan")
    before, after = (
        (problem.energy(x, batch), problem.gradient(x, batch), *problem.energy_and_gradient(x, batch))
        for x in (theta, lost)
    )
    same = all(torch.equal(a[1:], b[1:]) for a, b in zip(before, after, strict=True))
    assert same, "a chain that is not finite changes the others; usual cause: a mean or a sum over the chain axis"
    assert not bool(torch.isfinite(after[1][0]).all()), "the gradient at NaN is finite: a lost chain would go unseen"


def law_chains_have_their_own_streams(task: Task) -> None:
    """Starts and batches of a chain are the same alone and among others, and differ from other chains and seeds."""
    task = in_batches(task)
    cases = (ROWS, 0), ((ALONE,), 0), ((ALONE,), 1)
    together, alone, other = (_starts_and_batches(task, chains, seed) for chains, seed in cases)
    for name, leaf in together.items():
        assert torch.equal(leaf[ALONE], alone[name][0]), (
            f"{name}: chain {ALONE} of {len(ROWS)} meets another one than alone; usual causes: one generator for "
            "all chains, drawn chain after chain, or rows of another chain"
        )
        assert not torch.equal(leaf[ALONE], other[name][0]), (
            f"{name}: seeds 0 and 1 meet the same one; usual cause: a generator with a seed of its own"
        )
        twins = [c for c in ROWS if c != ALONE and torch.equal(leaf[c], leaf[ALONE])]
        assert not twins, (
            f"{name}: chains {twins[0]} and {ALONE} meet the same one; usual cause: `streams[0]` for every chain"
        )


def _starts_and_batches(task: Task, chains: Sequence[int], seed: int) -> dict[str, Tensor]:
    """Return the starts (C, D), and the batches of more than an epoch with the chains as their leading axis."""
    problem = task.build([Streams(seed, chain, ("laws",)) for chain in chains], "cpu")
    batches = problem.draw_batches(task.steps_per_epoch() + 2)
    return {"start": problem.initial()} | {f"batch {name}": leaf.transpose(0, 1) for name, leaf in batches.items()}


def _at(batches: Batch, k: int) -> Batch:
    return {name: leaf[k] for name, leaf in batches.items()}


@dataclass(frozen=True, kw_only=True)
class _Probe(Sampler):
    """A small step down the mean of the batch gradient and the full gradient; the state is U on the batch."""

    full_gradients_per_step: ClassVar[int] = 1

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> dict[str, Tensor]:
        return {"energy": theta.new_zeros(len(theta))}

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        energy, gradient = potential.value_and_grad(theta)
        return theta - h * (gradient + potential.full.grad(theta)) / 2, {"energy": energy}


def law_compiled_is_plain(task: Task) -> None:
    """A few steps end at the same position, with the same U, in both modes up to rounding."""
    task = in_batches(task)
    problem = task.build(streams(CHAINS), "cpu")
    x = problem.initial()
    slope = problem.gradient(x, None)
    ahead = problem.gradient(x + NEAR * slope / slope.norm(dim=1, keepdim=True).clamp(min=1e-300), None)
    steepest, curvature = float(slope.abs().max()), float((ahead - slope).norm(dim=1).max()) / NEAR
    path = trajectory([min(0.01 / max(1.0, steepest), 0.1 / max(1.0, curvature))] * STEPS, 1.0)
    plain, other = in_both_modes(lambda mode: Loop(task, _Probe(), path, streams(CHAINS), CHAINS, mode=mode))
    gap = max(distance(other.theta, plain.theta), distance(other.state["energy"], plain.state["energy"]))
    limit = 1000 * torch.finfo(plain.theta.dtype).eps
    assert gap < limit, (
        f"compiled, {STEPS} steps end {gap:.3g} of their size away from the plain ones (limit {limit:.1g}); usual "
        "causes: a branch of `torch.compiler.is_compiling()` that computes something else, a buffer written in place"
    )


def law_bytes_are_in_the_key(task: Task) -> None:
    """The run key depends on every file that the task reads: declared data, and files that settings name.

    A file that it opens and does not declare is a failure. It is seen only if it is read after this process began to
    look, so `bench check` begins before it loads plugins.
    """
    undeclared.watch()
    undeclared.forget()
    task = replace(task)  # it may read files when it is made
    problem = built(task, 1)
    batches = problem.draw_batches(1)
    problem.gradient(problem.initial(), {name: leaf[0] for name, leaf in batches.items()} or None)
    problem.energy(problem.initial(), None)
    kind = type(task)
    files = {f: str(getattr(task, f.name)) for f in schema(kind) if f.type == "file" and getattr(task, f.name)}
    identified = [check(field, path, kind.__name__) for field, path in files.items()]
    read = undeclared.uncovered([f"{kind.__module__}:{kind.__qualname__}"], task.datasets, identified)
    assert not read, (
        f"it reads {read[0]}, and a change of that file changes no run key; usual causes: a path that is text and not "
        "param(kind='file'), a file that is neither in `datasets` nor in `__files__`"
    )
    for field, path in files.items():
        with tempfile.TemporaryDirectory() as folder:
            other = Path(folder, "other")
            write_whole(other, Path(path).read_bytes() + b"\n", sync=False)
            same = check(field, str(other), kind.__name__) == check(field, path, kind.__name__)
        assert not same, f"another content of the file of {field.name} leaves the run key as it is"
    for file in task.datasets:
        others = [replace(f, sha256=f.sha256[::-1]) if f is file else f for f in task.datasets]
        same = data.checksum(others) == data.checksum(task.datasets)
        assert not same, f"another content of {file.path} leaves the run key as it is"


TASK_LAWS: list[tuple[str, Callable[[Task], None]]] = [
    ("mean of batches", law_mean_of_batches),
    ("gradient is that of the energy", law_gradient_is_that_of_the_energy),
    ("prior counted once", law_prior_counted_once),
    ("batch sizes agree", law_batch_sizes_agree),
    ("truth by another route", law_truth_by_another_route),
    ("blocks do not matter", law_blocks_do_not_matter),
    ("weights count", law_weights_count),
    ("state restores the batches", law_state_restores_the_batches),
    ("chains do not interact", law_chains_do_not_interact),
    ("chains have their own streams", law_chains_have_their_own_streams),
    ("compiled is plain", law_compiled_is_plain),
    ("bytes are in the key", law_bytes_are_in_the_key),
]
