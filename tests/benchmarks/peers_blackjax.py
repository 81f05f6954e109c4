"""blackjax on the same targets: its kernels under vmap and lax.scan, jitted, every state kept.

Forms: "vmap + scan" has keys for every chain; "one position" makes all chains one position (C, D) with one key.
"score" gives the kernel the gradient by hand, "grad" jax.grad of the log density. Before anything else the density is
proved to be the task's (`densities_jax`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from serving import Work, serve
from setting import FRICTION, LEAPFROG, Case
from targets import GRADIENTS, TARGETS, start, step_size

STRETCH = 2_000_000
"""Chain-steps of one call of the scan, about, where a gradient is cheap; the call itself is then nothing."""

FEWEST, MOST = 4, 50_000
"""Steps of a call."""


def prepare(case: Case) -> Work:
    import jax

    jax.config.update("jax_platforms", "cpu")
    from densities_jax import density, prove

    agreement = prove(case.task)
    jax.config.update("jax_enable_x64", case.dtype == "float64")
    work = case.chains * TARGETS[case.task].work * GRADIENTS.get(case.method, 1)
    steps = int(np.clip(STRETCH // work, FEWEST, MOST))
    log_density = density(case)
    kernel = one_position(case, log_density) if case.form.startswith("one position") else per_chain(case, log_density)
    run = jax.jit(lambda key, state: kernel(key, state, steps))
    key, first = jax.random.split(jax.random.key(0))
    carry = {"key": key, "state": initial_state(case, log_density, jax.numpy.asarray(start(case)), first)}

    def advance() -> Any:
        carry["key"], key = jax.random.split(carry["key"])
        carry["state"], draws = run(key, carry["state"])
        return draws.block_until_ready()

    return Work(steps * case.chains, advance, {"agreement": agreement})


def initial_state(case: Case, density: Any, x: Any, key: Any) -> Any:
    import blackjax
    import jax

    if case.method == "hmc":
        return jax.vmap(lambda one: blackjax.hmc.init(one, of_all_rows(case, density)))(x)
    if case.method == "mclmc":
        keys = jax.random.split(key, case.chains)
        return jax.vmap(lambda one, key: blackjax.mclmc.init(one, of_all_rows(case, density), key))(x, keys)
    return (x, jax.numpy.zeros_like(x)) if case.method == "sghmc" else x


def per_chain(case: Case, density: Any) -> Callable[..., Any]:
    """vmap over the chains of a scan over the steps: each chain with keys of its own."""
    import jax

    if case.method in FULL:
        step = FULL[case.method](case, density)
    else:
        step = KERNELS[case.method](case, gradient(case, density), lambda key: minibatch(case, density, key, ()))

    def one_chain(key: Any, state: Any, steps: int) -> Any:
        return jax.lax.scan(lambda s, k: step(k, s), state, jax.random.split(key, steps))

    def all_chains(key: Any, state: Any, steps: int) -> Any:
        keys = jax.random.split(key, case.chains)
        return jax.vmap(lambda k, s: one_chain(k, s, steps), out_axes=(0, 1))(keys, state)

    return all_chains


def one_position(case: Case, density: Any) -> Callable[..., Any]:
    """A scan over the steps of all chains as one position."""
    import jax

    grad = jax.vmap(gradient(case, density), in_axes=(0, None if batch_size(case) is None else 0))
    step = KERNELS[case.method](case, grad, lambda key: minibatch(case, density, key, (case.chains,)))
    return lambda key, state, steps: jax.lax.scan(lambda s, k: step(k, s), state, jax.random.split(key, steps))


def batch_size(case: Case) -> int | None:
    return TARGETS[case.task].settings.get("batch")


def minibatch(case: Case, density: Any, key: Any, chains: tuple[int, ...]) -> tuple[Any, Any]:
    """A key for the noise, and rows drawn with replacement; all rows, or None, where U is exact."""
    import jax

    size = batch_size(case)
    if size is None:
        return key, None
    key, pick = jax.random.split(key)
    index = jax.random.randint(pick, (*chains, size), 0, density.terms)
    return key, jax.tree.map(lambda leaf: leaf[index], density.rows)


def sgld(case: Case, grad: Callable[..., Any], minibatch: Callable[..., Any]) -> Callable[..., Any]:
    import blackjax

    kernel, h = blackjax.sgld(grad), step_size(case)

    def step(key: Any, x: Any) -> Any:
        key, batch = minibatch(key)
        x = kernel.step(key, x, batch, h)
        return x, x

    return step


def sghmc(case: Case, grad: Callable[..., Any], minibatch: Callable[..., Any]) -> Callable[..., Any]:
    """The integrator of blackjax.sghmc, which itself keeps one state in ten and draws a new momentum for each."""
    from blackjax.sgmcmc.diffusions import sghmc as solver

    epsilon = step_size(case) ** 0.5
    integrate = solver(alpha=FRICTION / epsilon, beta=0.0)

    def step(key: Any, state: Any) -> Any:
        x, momentum = state
        key, batch = minibatch(key)
        state = integrate(key, x, momentum, grad(x, batch), epsilon)
        return state, state[0]

    return step


KERNELS = {"sgld": sgld, "sghmc": sghmc}


def hmc(case: Case, density: Any) -> Callable[..., Any]:
    import blackjax
    import jax.numpy as jnp

    epsilon, unit = step_size(case) ** 0.5, jnp.ones(density.task.dim())
    return moved(blackjax.hmc(of_all_rows(case, density), epsilon, unit, num_integration_steps=LEAPFROG))


def mclmc(case: Case, density: Any) -> Callable[..., Any]:
    """With the length of a step of ours, and L such that as much of the velocity is lost in it."""
    import blackjax

    epsilon = (density.task.dim() * step_size(case)) ** 0.5
    lost = -float(np.log1p(-FRICTION))
    return moved(blackjax.mclmc(of_all_rows(case, density), L=epsilon / lost, step_size=epsilon))


def moved(kernel: Any) -> Callable[..., Any]:
    """A step of a kernel of blackjax, which gives its position as the draw."""

    def step(key: Any, state: Any) -> Any:
        state, _ = kernel.step(key, state)
        return state, state.position

    return step


FULL = {"hmc": hmc, "mclmc": mclmc}
"""The kernels of full gradients."""


def of_all_rows(case: Case, density: Any) -> Callable[..., Any]:
    """x -> log p(x); with the gradient by hand as its derivative where the form has it."""
    return density.with_score() if "score" in case.form else lambda x: density.value(x, density.rows, 1)


def gradient(case: Case, density: Any) -> Callable[..., Any]:
    """(position, minibatch) -> gradient of the log density, as blackjax's kernels want it; None for all rows."""
    import jax

    size = batch_size(case)
    scale = 1 if size is None else density.terms / size

    def on(x: Any, rows: Any) -> tuple[Any, ...]:
        return x, density.rows if rows is None else rows, scale

    if "score" in case.form:
        return lambda x, rows: density.both(*on(x, rows))[1]
    return lambda x, rows: jax.grad(density.value)(*on(x, rows))


if __name__ == "__main__":
    serve(prepare)
