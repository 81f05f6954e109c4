"""What each chain draws from its own generator: the same however many chains are beside it, in whatever parts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import harness
from harness.contracts.chain_sequence import epochs
from harness.contracts.randomness import Streams

PARTS = (1, 4, 7, 2)


def taken(sequence):
    return torch.cat([sequence.take(steps) for steps in PARTS])


def test_a_task_author_gives_what_draws_the_stretch_of_one_chain():
    generators = [Streams(3, chain).numpy("order") for chain in range(3)]
    found = taken(harness.ChainSequence(generators, lambda g: torch.from_numpy(g.standard_normal((5, 2)))))
    for chain in range(3):
        again = Streams(3, chain).numpy("order")
        alone = np.concatenate([again.standard_normal((5, 2)) for _ in range(3)])
        assert np.array_equal(found[:, chain], alone[: sum(PARTS)])


@pytest.mark.parametrize(("terms", "batch", "lanes"), [(10, 3, 1), (10, 3, 8), (12, 4, 4), (5, 5, 1)])
def test_an_epoch_is_a_permutation_in_batches_filled_up_with_the_number_of_terms(terms, batch, lanes):
    streams = [Streams(3, chain) for chain in range(3)]
    found = taken(epochs(streams, terms, batch, lanes))
    width = -(-batch // lanes) * lanes
    for chain, stream in enumerate(streams):
        generator, alone = stream.numpy("order"), []
        while len(alone) < len(found):
            order = generator.permutation(terms)
            alone += [order[start : start + batch] for start in range(0, terms, batch)]
        for step, rows in enumerate(found[:, chain]):
            assert rows.tolist() == [*alone[step], *[terms] * (width - len(alone[step]))]
