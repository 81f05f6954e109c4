"""What a user of blackjax would write for `bench run --sampler sgld --task mixture25`; the draws are kept.

python cold_blackjax.py CHAINS STEPS FILE
"""

from __future__ import annotations

import itertools
import sys
from typing import Any

import blackjax
import jax
import jax.numpy as jnp
import numpy as np

STEP_SIZE, VARIANCE = 0.01, 0.03


def main(chains: int, steps: int, file: str) -> None:
    """The score is given analytically, the fastest form of peers_blackjax.py."""
    jax.config.update("jax_enable_x64", True)
    means = jnp.asarray(list(itertools.product((-4.0, -2.0, 0.0, 2.0, 4.0), repeat=2)))
    offset, pull = -(means**2).sum(1) / (2 * VARIANCE), means / VARIANCE
    kernel = blackjax.sgld(lambda x, _: jax.nn.softmax(offset + pull @ x) @ pull - x / VARIANCE)

    def step(x: Any, key: Any) -> Any:
        x = kernel.step(key, x, None, STEP_SIZE)
        return x, x

    def chain(key: Any, x: Any) -> Any:
        return jax.lax.scan(step, x, jax.random.split(key, steps))[1]

    start = jax.random.uniform(jax.random.key(1), (chains, 2), minval=-5.0, maxval=5.0)
    draws = jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(0), chains), start)
    np.save(file, np.asarray(draws))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
