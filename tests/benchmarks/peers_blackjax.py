"""blackjax on the same targets: its kernels under vmap and lax.scan, jitted, every state kept.

Forms: "vmap + scan" has keys for every chain; "one position" makes all chains one position (C, D) with one key.
"score" gives the kernel the analytic gradient, "grad" jax.grad of the log density.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from serving import Work, serve
from setting import BATCH, FRICTION, LEAPFROG, Case, german, mixture, start, step_size

STRETCH = 2_000_000
"""Chain-steps of one call of the scan, about; the call itself is then nothing."""


def prepare(case: Case) -> Work:
    import jax

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", case.dtype == "float64")
    steps = int(np.clip(STRETCH // case.chains // (25 if case.task == "blr-german" else 1), 200, 50_000))
    if case.method == "hmc":
        steps = max(200, steps // LEAPFROG)
    kernel = one_position(case) if case.form.startswith("one position") else per_chain(case)
    run = jax.jit(lambda key, state: kernel(key, state, steps))
    carry = {"key": jax.random.key(0), "state": initial_state(case, jax.numpy.asarray(start(case)))}

    def advance() -> Any:
        carry["key"], key = jax.random.split(carry["key"])
        carry["state"], draws = run(key, carry["state"])
        return draws.block_until_ready()

    return Work(steps * case.chains, advance)


def initial_state(case: Case, x: Any) -> Any:
    import blackjax
    import jax

    if case.method == "hmc":
        return jax.vmap(lambda one: blackjax.hmc.init(one, log_density(case)))(x)
    return (x, jax.numpy.zeros_like(x)) if case.method == "sghmc" else x


def per_chain(case: Case) -> Callable[..., Any]:
    """vmap over the chains of a scan over the steps: each chain with keys of its own."""
    import jax

    step = hmc(case) if case.method == "hmc" else KERNELS[case.method](case, gradient(case))

    def one_chain(key: Any, state: Any, steps: int) -> Any:
        return jax.lax.scan(lambda s, k: step(k, s), state, jax.random.split(key, steps))

    def all_chains(key: Any, state: Any, steps: int) -> Any:
        keys = jax.random.split(key, case.chains)
        return jax.vmap(lambda k, s: one_chain(k, s, steps), out_axes=(0, 1))(keys, state)

    return all_chains


def one_position(case: Case) -> Callable[..., Any]:
    """A scan over the steps of all chains as one position."""
    import jax

    step = KERNELS[case.method](case, jax.vmap(gradient(case), in_axes=(0, None)))
    return lambda key, state, steps: jax.lax.scan(lambda s, k: step(k, s), state, jax.random.split(key, steps))


def minibatch(case: Case, key: Any) -> tuple[Any, Any]:
    """A key for the noise, and rows drawn with replacement; None where U is exact."""
    import jax

    if case.task != "blr-german":
        return key, None
    key, pick = jax.random.split(key)
    return key, rows(case)[jax.random.randint(pick, (BATCH,), 0, len(rows(case)))]


def sgld(case: Case, grad: Callable[..., Any]) -> Callable[..., Any]:
    import blackjax

    kernel, h = blackjax.sgld(grad), step_size(case)

    def step(key: Any, x: Any) -> Any:
        key, batch = minibatch(case, key)
        x = kernel.step(key, x, batch, h)
        return x, x

    return step


def sghmc(case: Case, grad: Callable[..., Any]) -> Callable[..., Any]:
    """The integrator of blackjax.sghmc, which itself keeps one state in ten and draws a new momentum for each."""
    from blackjax.sgmcmc.diffusions import sghmc as solver

    epsilon = step_size(case) ** 0.5
    integrate = solver(alpha=FRICTION / epsilon, beta=0.0)

    def step(key: Any, state: Any) -> Any:
        x, momentum = state
        key, batch = minibatch(case, key)
        state = integrate(key, x, momentum, grad(x, batch), epsilon)
        return state, state[0]

    return step


KERNELS = {"sgld": sgld, "sghmc": sghmc}


def hmc(case: Case) -> Callable[..., Any]:
    import blackjax
    import jax.numpy as jnp

    epsilon = step_size(case) ** 0.5
    kernel = blackjax.hmc(log_density(case), epsilon, jnp.ones(2), num_integration_steps=LEAPFROG)

    def step(key: Any, state: Any) -> Any:
        state, _ = kernel.step(key, state)
        return state, state.position

    return step


def rows(case: Case) -> Any:
    import jax.numpy as jnp

    return jnp.asarray(german()[0], case.dtype)


def log_density(case: Case) -> Callable[..., Any]:
    """log p(x) of the mixture up to a constant; with the analytic score as its derivative where the form has it."""
    import jax
    import jax.numpy as jnp

    means, variance = mixture()
    mu = jnp.asarray(means, case.dtype)

    def value(x: Any) -> Any:
        return jax.nn.logsumexp(-((x - mu) ** 2).sum(-1) / (2 * variance))

    if "score" not in case.form:
        return value
    offset, pull = -(mu**2).sum(1) / (2 * variance), mu / variance

    def both(x: Any) -> Any:
        logits = offset + pull @ x
        top = logits.max()
        weights = jnp.exp(logits - top)
        total = weights.sum()
        return top + jnp.log(total) - (x * x).sum() / (2 * variance), weights @ pull / total - x / variance

    density = jax.custom_jvp(lambda x: both(x)[0])

    @density.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        y, score = both(*primals)
        return y, score @ tangents[0]

    return density


def gradient(case: Case) -> Callable[..., Any]:
    """(position, minibatch) -> gradient of the log density, as blackjax's kernels want it."""
    import jax
    import jax.numpy as jnp

    if case.task == "blr-german":
        if "score" in case.form:
            return lambda x, a: a.T @ jax.nn.sigmoid(-(a @ x)) * (len(rows(case)) / BATCH) - x
        from blackjax.sgmcmc.gradients import grad_estimator

        return grad_estimator(lambda x: -(x @ x) / 2, lambda x, a: jax.nn.log_sigmoid(a @ x), len(rows(case)))
    if "score" not in case.form:
        return jax.grad(lambda x, _: log_density(case)(x))
    means, variance = mixture()
    mu = jnp.asarray(means, case.dtype)
    offset, pull = -(mu**2).sum(1) / (2 * variance), mu / variance
    return lambda x, _: jax.nn.softmax(offset + pull @ x) @ pull - x / variance


if __name__ == "__main__":
    serve(prepare)
