"""Law 3: one step is the same for each chain alone, on any task and in float32, and is not rounded."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from harness import Sampler, linear
from harness.engine import CountingPotential, named
from harness.tasks import Streams
from plugins.checking.gaussian import GaussianProblem
from plugins.checking.law import Broken, Law, State, distance, random_script, roundings, safe_x, same
from plugins.checking.samplers.exact import is_metropolis

CURVATURES = (0.5, 1.0, 2.0)
CURVATURE = torch.tensor(CURVATURES, dtype=torch.float64)
ROWS = 5

MANY = 64
"""Rows that show how precisely a step responds."""

FINE, COARSE = 1e-9, 1e-3
"""Changes of the inputs of a step. In float64 it responds to both in proportion; a step that rounds, to COARSE only."""
ROUNDING = 1e-13
"""A response no larger than this is the rounding of float64."""

SIZES = (1.0, 2.0, 5.0, 50.0)
"""Sizes of the noise, in standard deviations."""

ROUNDED = "a cast to float32 or to integers, or a rounding"
TERMS = 50_000
FLOAT32 = 1e-3
"""Relative difference allowed between float32 and float64: 8,000 roundings of 1.2e-7. An error of 1 % in the noise of a
step causes some 5e-3 at these step sizes."""

SAME = 1e-9
"""Relative difference that rounding explains."""


def check(sampler: Sampler) -> None:
    """Check a step from random positions, states, noise and gradient errors, in float64 and float32."""
    x = safe_x(sampler, 0.3)
    _chain_by_chain(sampler, x / max(CURVATURES))
    _of_any_task(sampler, x / max(CURVATURES))
    with torch.no_grad():
        _answers_finely(sampler, x / max(CURVATURES))
        _noise_is_normal(sampler, x / max(CURVATURES))
        _noise_is_of_this_temperature(sampler, x / max(CURVATURES))
        _noise_is_of_this_step(sampler, x / max(CURVATURES))
        _weights_are_of_their_draws(sampler, x / max(CURVATURES))
        if is_metropolis(sampler, x / max(CURVATURES), 1.0):
            _kept_is_of_the_position(sampler)
    if sampler.refresh_every:
        _refresh(sampler, x / max(CURVATURES))


def _near_the_start(
    sampler: Sampler, h: float
) -> tuple[linear.Probe, Callable[[Tensor, Tensor, Tensor], Tensor], Tensor]:
    """Return a probe, its step as a function of (z, noise, slope), and MANY rows z near theta = 1 and its state."""
    probe = linear.Probe(sampler, h, 1.0, CURVATURES)
    z = probe.join(torch.ones((1, probe.dim), dtype=torch.float64), probe.start)
    z = z + 0.01 * torch.randn((MANY, probe.size), generator=_generator("points"), dtype=torch.float64)
    return probe, lambda z, xi, b: probe.answer(z, xi, b, CURVATURE), z


def _answers_finely(sampler: Sampler, h: float) -> None:
    """Check that tiny changes of position, state and noise change the step in proportion: nothing is rounded."""
    probe, step, z = _near_the_start(sampler, h)
    xi = torch.cat(
        [values.reshape(MANY, -1) for values in random_script(probe.slots, MANY, _generator("noise"))] or [z[:, :0]], 1
    )
    b = torch.randn((MANY, probe.dim), generator=_generator("slopes"), dtype=torch.float64)
    before = step(z, xi, b)
    inputs = {name: (0, selected) for name, selected in probe.entries.items()} | {"the noise": (1, _normals_of(probe))}
    for name, (which, selected) in inputs.items():
        given = (z, xi)[which]
        change = torch.zeros_like(given)
        change[:, selected] = torch.randn(change[:, selected].shape, generator=_generator(name), dtype=torch.float64)
        whole = [z, xi, b]
        whole[which] = given + change
        if not change.any() or (name == "the noise" and not (step(*whole) - before).any()):
            continue  # there is nothing to change, or the noise has no weight, as in sghmc without friction
        answers = []
        for size in (FINE, COARSE):
            moved = [z, xi, b]
            moved[which] = given + size * change
            answers.append((step(*moved) - before).abs() / size)
        for entry, columns in probe.entries.items():
            fine, coarse = (float(answer[:, columns].amax(1).median()) for answer in answers)
            if fine < 0.5 * coarse and COARSE * coarse > ROUNDING:
                raise Broken(
                    f"{name} changed by {FINE:g} changes {entry} by {fine:.2g} times as much, changed by {COARSE:g} by "
                    f"{coarse:.2g} times: a step rounds it, to float32 perhaps",
                    ROUNDED,
                )
        if name in ("theta", "the noise") and not answers[0].any():
            raise Broken(f"a step does not respond to a change of {FINE:g} in {name}: it rounds or ignores it", ROUNDED)


def _noise_is_normal(sampler: Sampler, h: float) -> None:
    """Check that noise that does not depend on the position is a linear function of normal numbers, so it is normal.

    A Metropolis kernel may refuse it, and has its law at every proposal.
    """
    if is_metropolis(sampler, h, 1.0):
        return
    probe, step, z = _near_the_start(sampler, h)
    normals = _normals_of(probe)
    if not len(normals):
        return
    still, loud = _noise(probe, normals, 1)
    b = torch.randn((MANY, probe.dim), generator=_generator("slopes"), dtype=torch.float64)
    silent = step(z, still, b)
    added = {size: step(z, still + size * (loud - still), b) - silent for size in SIZES}
    for entry, columns in probe.entries.items():
        answers = {size: answer[:, columns] for size, answer in added.items()}
        one = answers[1.0]
        if any(distance(answer, answer[:1].expand_as(answer)) > SAME for answer in answers.values()) or not one.any():
            continue  # the noise depends on the position, or there is none
        for size, answer in answers.items():
            gap = distance(answer, size * one)
            if gap > SAME:
                raise Broken(
                    f"the noise that a step adds to {entry} is not a linear function of the normal numbers that it "
                    f"requests, so it is not normal: {size:g} times the numbers do not give {size:g} times the answer "
                    f"(difference {gap:.2g}, relative)",
                    "noise that is clipped, truncated or transformed",
                )


def _noise_is_of_this_temperature(sampler: Sampler, h: float) -> None:
    """Check that the effect of the normal numbers on a step, and on a silent step after it, depends on the T given.

    Two steps are needed because a velocity in units of sqrt(T) has noise without T: T scales the move of the next step.
    """
    probe, step, z = _near_the_start(sampler, h)
    normals = _normals_of(probe)
    if not normals:
        return
    quiet, loud = _noise(probe, normals, MANY)
    b = torch.zeros((MANY, probe.dim), dtype=torch.float64)
    added = []
    for T in (1.0, 4.0):
        probe.T = torch.tensor(T, dtype=torch.float64)
        first = [step(z, xi, b) for xi in (loud, quiet)]
        second = [step(after, quiet, b) for after in first]
        added.append(torch.cat([first[0] - first[1], second[0] - second[1]], 1))
    if added[0].any() and distance(added[1], added[0]) < SAME:
        raise Broken(
            "the noise of a step does not depend on the temperature that the step is given",
            "T missing under the root of the noise, or kept from an earlier step",
        )


def _noise_is_of_this_step(sampler: Sampler, h: float) -> None:
    """Check that a step responds to its random numbers as if all steps before it had had its h and T.

    The noise of `init` is silent, so that a velocity is 0 at every temperature; adaptive entries are those of this h
    and T, and a sampler without a stationary law may adapt to what it started with.
    """
    if not sampler.limit_bias():
        return
    theta, b = _normals(2 * MANY, len(CURVATURES)).chunk(2)
    potential = linear.QuadraticPotential(CURVATURE, b)
    size, T = torch.tensor(h, dtype=torch.float64), torch.ones((), dtype=torch.float64)
    slots = linear.Probe(sampler, h, 1.0, CURVATURES).slots
    loud = random_script(slots, MANY, _generator("noise"))
    quiet = [torch.zeros_like(x) if slot.kind == "normal" else x for x, slot in zip(loud, slots, strict=True)]
    starts = [sampler.init(theta, potential, size / k, k * k * T, linear.ScriptedNoise()) for k in (1, 3)]
    effects = []
    for state in starts:
        known = {**state, **{name: starts[0][name] for name in linear.held(sampler, state)}}
        ends = []
        for script in (loud, quiet):
            first, after = sampler.step(theta, dict(known), potential, size, T, linear.ScriptedNoise(script))
            second, _ = sampler.step(first, dict(after), potential, size, T, linear.ScriptedNoise(quiet))
            ends.append(torch.cat([first, second], 1))
        effects.append(ends[0] - ends[1])
    if bool(effects[0].isfinite().all()) and distance(effects[1], effects[0]) > SAME:
        raise Broken(
            "after steps of another size and temperature the same random numbers move a step by other amounts",
            "a step size or temperature of an earlier step, or an energy over T that is kept from one",
        )


def _kept_is_of_the_position(sampler: Sampler) -> None:
    """Check of a Metropolis kernel that what it keeps of a position, and uses, is that of the old one after a refusal.

    The steps are of the first size at which some of the chains move and others do not.
    """
    theta, potential = _normals(MANY, len(CURVATURES)), linear.QuadraticPotential(CURVATURE)
    slots, T = linear.Probe(sampler, 0.1, 1.0, CURVATURES).slots, torch.ones((), dtype=torch.float64)
    script, later = (random_script(slots, MANY, _generator(name)) for name in ("one", "another"))
    for x in (0.5, 1.0, 2.0, 4.0, 8.0):
        h = torch.tensor(x / max(CURVATURES), dtype=torch.float64)
        given = sampler.init(theta, potential, h, T, linear.ScriptedNoise())
        moved, kept = sampler.step(theta, dict(given), potential, h, T, linear.ScriptedNoise(script))
        still = (moved == theta).all(1)
        if still.any() and not still.all():
            break
    else:
        return
    fresh = sampler.init(moved, potential, h, T, linear.ScriptedNoise())
    for name, leaf in kept.items():
        off = (leaf.double() - fresh[name].double()).reshape(MANY, -1).abs().amax(1)
        stale = off > SAME * fresh[name].double().abs().max()
        if stale[~still].any() or not stale[still].any() or same(fresh[name], fresh[name][:1].expand_as(leaf)):
            continue  # it is not of the position, or it is right
        ends = [
            sampler.step(moved, {**kept, name: of}, potential, h, T, linear.ScriptedNoise(later))[0]
            for of in (leaf, fresh[name])
        ]
        if not same(*ends):
            raise Broken(
                f"where a proposal is refused, state {name!r} is not that of the position, as it is where one is taken",
                "an energy or gradient of the proposal that is kept after a refusal",
            )


def _weights_are_of_their_draws(sampler: Sampler, h: float) -> None:
    """Check that other noise gives another weight, if it gives another draw and weights differ between draws.

    A weight of the previous draw has a bias of order h, as the step itself has, so whole-law cannot detect it.
    """
    theta, b = _normals(2 * MANY, len(CURVATURES)).chunk(2)
    probe = linear.Probe(sampler, h, 1.0, CURVATURES)
    potential = linear.QuadraticPotential(CURVATURE, b)
    draws, weights = [], []
    for name in ("one", "another"):
        state = sampler.init(theta, potential, probe.h, probe.T, linear.ScriptedNoise())
        script = random_script(probe.slots, MANY, _generator(name))
        draw, state = sampler.step(theta, dict(state), potential, probe.h, probe.T, linear.ScriptedNoise(script))
        weight = sampler.log_weight(state)
        if weight is None:
            return
        draws.append(draw)
        weights.append(weight)
    known = torch.equal(*weights) and not bool((weights[0] == weights[0][0]).all())
    if known and not torch.equal(*draws) and not _are_lengths(sampler, probe, draw, state, weights[0]):
        raise Broken(
            "other noise in a step makes another draw with the same weight, though weights differ from draw to draw",
            "the weight of the draw before, or one that is computed before the step",
        )


def _are_lengths(sampler: Sampler, probe: linear.Probe, draw: Tensor, state: State, weights: Tensor) -> bool:
    """Return whether each weight is that of the step from its draw: its response to the gradient is then proportional.

    Such a change of time may be known before the draw is.
    """
    moved = []
    for slope in (0.0, 1.0):
        potential = linear.QuadraticPotential(CURVATURE, torch.full_like(draw, slope))
        moved.append(sampler.step(draw, dict(state), potential, probe.h, probe.T, linear.ScriptedNoise())[0])
    lengths = (moved[0] - moved[1]) / (weights - weights[0]).exp()[:, None]
    return bool(lengths[0].all()) and distance(lengths, lengths[:1].expand_as(lengths)) < SAME


def _normals_of(probe: linear.Probe) -> list[int]:
    """Return the columns of the noise that are normal numbers."""
    columns: list[int] = []
    column = 0
    for slot in probe.slots:
        columns += range(column, column + slot.numbers) if slot.kind == "normal" else []
        column += slot.numbers
    return columns


def _noise(probe: linear.Probe, normals: list[int], rows: int) -> tuple[Tensor, Tensor]:
    """Return noise (MANY, m) with normals 0 and uniforms 1/2, and the same with `rows` rows of random normals."""
    quiet = torch.full((MANY, probe.noise_size), 0.5, dtype=torch.float64)
    quiet[:, normals] = 0
    loud = quiet.clone()
    loud[:, normals] = torch.randn((rows, len(normals)), generator=_generator("noise"), dtype=torch.float64)
    return quiet, loud


def _generator(name: str) -> torch.Generator:
    return Streams(0, 0, ("one-step",)).torch(name)


def _chain_by_chain(sampler: Sampler, h: float) -> None:
    """Check, for h and T of shape (C, 1), that each chain makes the step it makes alone with its own scalar h and T."""
    steps = h * (0.5 + torch.arange(ROWS, dtype=torch.float64) / ROWS)[:, None]
    heats = (0.5 + torch.arange(ROWS, dtype=torch.float64))[:, None]
    probe = linear.Probe(sampler, h, 1.0, CURVATURES)
    theta, b = _normals(2 * ROWS, len(CURVATURES)).chunk(2)
    script = random_script(probe.slots, ROWS, _generator("noise"))
    with torch.no_grad():
        potential = linear.QuadraticPotential(CURVATURE, b)
        state = sampler.init(theta, potential, probe.h, probe.T, linear.ScriptedNoise())
        together = sampler.step(theta, dict(state), potential, steps, heats, linear.ScriptedNoise(script))
        for c in range(ROWS):
            row = slice(c, c + 1)
            alone = sampler.step(
                theta[row], {name: leaf[row] for name, leaf in state.items()},
                linear.QuadraticPotential(CURVATURE, b[row]), steps[c, 0], heats[c, 0],
                linear.ScriptedNoise([values[row] for values in script]),
            )  # fmt: skip
            gap = distance(together[0][row], alone[0])
            for name, leaf in alone[1].items():
                if leaf.is_floating_point():
                    gap = max(gap, distance(together[1][name][row], leaf))
            if not gap < 1e-12:
                raise Broken(
                    f"with h and T of shape (C, 1) chain {c} differs by {gap:.2g} (relative) from itself alone",
                    "a mean or sum over the chains, or h and T reshaped instead of broadcast",
                )


def _of_any_task(sampler: Sampler, h: float) -> None:
    """Check that the step is the same on a target of 50,000 terms, unless the sampler needs `terms`, and in float32."""
    theta, b = _normals(2 * MANY, len(CURVATURES)).chunk(2)
    script = random_script(linear.Probe(sampler, h, 1.0, CURVATURES).slots, MANY, _generator("noise"))

    def answer(dtype: torch.dtype, terms: int) -> tuple[Tensor, State]:
        potential = linear.QuadraticPotential(CURVATURE.to(dtype), b.to(dtype), terms=terms)
        step_size, T = torch.tensor(h, dtype=dtype), torch.tensor(1.0, dtype=dtype)
        state = sampler.init(theta.to(dtype), potential, step_size, T, linear.ScriptedNoise())
        noise = linear.ScriptedNoise([values.to(dtype) for values in script])
        return sampler.step(theta.to(dtype), dict(state), potential, step_size, T, noise)

    with torch.no_grad():
        reference = answer(torch.float64, 1)
        others = {"in float32": (answer(torch.float32, 1), FLOAT32)}
        if "terms" not in sampler.needs:
            others[f"on a target of {TERMS:,} terms"] = (answer(torch.float64, TERMS), SAME)
    for where, (other, allowed) in others.items():
        changed = named(*other)
        for name, leaf in named(*reference).items():
            if not leaf.is_floating_point():
                continue
            sizes = leaf.abs().reshape(MANY, -1).amax(1).clamp(min=1e-300)
            gap = float(((changed[name].double() - leaf).abs().reshape(MANY, -1).amax(1) / sizes).median())
            if not gap < allowed:
                raise Broken(
                    f"{where} {name} after a step differs by {gap:.2g} (relative, median over {MANY} chains)",
                    "a step that depends on the dtype or on `potential.terms`; one that needs the number of terms "
                    "declares needs = {'terms'}",
                    roundings(gap, changed[name].dtype),
                )


def _refresh(sampler: Sampler, h: float) -> None:
    """Check that a refresh requests one full gradient, and that its result depends on the position.

    The Hessian is the same everywhere, so it is another one at the second position for a sampler that asks for it.
    """
    state = linear.Probe(sampler, h, 1.0, CURVATURES).start
    left = []
    scales = (1.0, 2.0 if "gauss_newton" in sampler.needs else 1.0)
    for point, scale in zip(_normals(2, len(CURVATURES)).split(1), scales, strict=True):
        potential = CountingPotential(GaussianProblem(CURVATURE, scale=scale), 1)
        with torch.no_grad():
            left.append(sampler.refresh(point, dict(state), potential))
        calls, full = potential.take_counts()
        if (calls, full) != (0, 1):
            raise Broken(
                f"refresh asks for {calls} minibatch gradients and {full} full gradients; it must ask for 0 and 1",
                "a gradient from `potential.grad` in place of `potential.full.grad`",
            )
    if all(same(leaf, left[1][name]) for name, leaf in left[0].items()):
        raise Broken(
            "refresh returns the same state at two different positions",
            "a refresh that returns its argument, or drops its gradient",
        )


def _normals(rows: int, columns: int) -> Tensor:
    return torch.randn((rows, columns), generator=Streams(0, 0, ("one-step",)).torch("vectors"), dtype=torch.float64)


LAW = Law(
    3, "one-step", check,
    "a step that branches on values, mixes chains, reshapes h and T instead of letting them broadcast, rounds, or "
    "clips its noise",
    exemptible=False,
)  # fmt: skip
