"""What each chain draws from its own generator: the same however many chains are beside it, in whatever parts."""

import numpy as np
import pytest
import torch

import harness
from harness.contracts import chain_sequence
from harness.contracts.chain_sequence import epochs
from harness.contracts.randomness import ORDERS, Streams

pytestmark = pytest.mark.numbers

PARTS = (1, 4, 7, 2)


def taken(sequence):
    return torch.cat([sequence.take(steps) for steps in PARTS])


def test_a_task_author_gives_what_draws_the_stretch_of_one_chain():
    generators = [Streams(3, chain).numpy("order") for chain in range(3)]
    steps = taken(harness.tasks.ChainSequence(generators, lambda g: torch.from_numpy(g.standard_normal((5, 2)))))
    for chain in range(3):
        again = Streams(3, chain).numpy("order")
        alone = np.concatenate([again.standard_normal((5, 2)) for _ in range(3)])
        assert np.array_equal(steps[:, chain], alone[: sum(PARTS)])


@pytest.mark.parametrize(("terms", "batch", "lanes"), [(10, 3, 1), (10, 3, 8), (12, 4, 4), (5, 5, 1)])
def test_an_epoch_is_a_permutation_in_batches_filled_up_with_the_number_of_terms(terms, batch, lanes):
    streams = [Streams(3, chain) for chain in range(3)]
    steps = taken(epochs(streams, terms, batch, lanes))
    width = -(-batch // lanes) * lanes
    for chain, stream in enumerate(streams):
        generator, alone = stream.numpy("order"), []
        while len(alone) < len(steps):
            order = generator.permutation(terms)
            alone += [order[start : start + batch] for start in range(0, terms, batch)]
        for step, rows in enumerate(steps[:, chain]):
            assert rows.tolist() == [*alone[step], *[terms] * (width - len(alone[step]))]


def in_order(order, chains=3, seed=3):
    return [Streams(seed, chain, (), order) for chain in range(chains)]


@pytest.mark.parametrize(("terms", "batch"), [(10, 3), (12, 4), (5, 5)])
def test_the_symmetric_order_goes_there_and_back_and_then_to_another_permutation(terms, batch):
    m = -(-terms // batch)
    there = epochs(in_order("shuffled"), terms, batch).take(7 * m)
    batches = taken(epochs(in_order("symmetric"), terms, batch))
    whole = torch.cat([part for e in there.split(m) for part in (e, e.flip(0))])
    assert torch.equal(batches, whole[: len(batches)])
    assert len(batches) > 2 * m


def test_replaced_batches_are_independent_and_uniform():
    """Each place holds each term alike often, whatever the place before or beside it holds; none is empty."""
    terms, batch, steps = 5, 3, 4000
    index = epochs(in_order("replaced", chains=1), terms, batch).take(steps)[:, 0].numpy()
    assert (index.min(), index.max()) == (0, terms - 1)
    for first, second in ((index[:-1, 0], index[1:, 0]), (index[:, 0], index[:, 1]), (index[:-1, 2], index[1:, 0])):
        counts = np.bincount(terms * first + second, minlength=terms**2)
        expected = len(first) / terms**2
        assert ((counts - expected) ** 2 / expected).sum() < 53  # chi-square with 24 degrees of freedom: p = 6e-4


@pytest.fixture
def without_compiler(monkeypatch):
    return lambda: monkeypatch.setattr(chain_sequence, "compiled", lambda _: None)


@pytest.mark.parametrize("terms", [1, 2, 3, 64, 65, 128, 129, 257, 1000, 4099])
def test_epochs_are_the_same_with_and_without_a_compiler(terms, without_compiler):
    streams = [Streams(5, chain) for chain in range(3)]
    batch, parts = max(1, terms // 3), (1, 9, 2, 30)

    def drawn():
        sequence = epochs(streams, terms, batch)
        return [(sequence.take(steps).clone(), sequence.state()) for steps in parts]

    compiled = drawn()
    without_compiler()
    for (batches, state), (others, other) in zip(compiled, drawn(), strict=True):
        assert torch.equal(batches, others)
        assert all(torch.equal(state[name], other[name]) for name in state)


@pytest.mark.parametrize("later", ["compiled", "NumPy"])
@pytest.mark.parametrize("order", ORDERS)
def test_epochs_go_on_from_any_position(later, order, without_compiler):
    streams = in_order(order)
    whole = epochs(streams, 10, 3).take(60)
    sequence = epochs(streams, 10, 3)
    states = [sequence.state()]
    for _ in range(30):
        sequence.take(1)
        states.append(sequence.state())
    if later == "NumPy":
        without_compiler()
    for step, state in enumerate(states):
        again = epochs(streams, 10, 3)
        again.take(7)
        again.load(state)
        assert torch.equal(again.take(13), whole[step : step + 13])
        assert torch.equal(again.take(13), whole[step + 13 : step + 26])


def test_what_was_taken_is_part_of_one_copy_of_each_stretch():
    """ "cpu:0" stands for a device: only "cpu" is where the stretches are."""
    sequence = epochs([Streams(0, chain) for chain in range(2)], 10, 3)
    copies = set()
    for steps in (1, 2, 1, 3, 1, 5, 1):
        part = sequence.take(steps)
        sent = sequence.sent(part, "cpu:0")
        assert torch.equal(sent, part)
        copies.add(sequence._copy.data_ptr())
        sequence.load(sequence.state())
    assert torch.equal(sequence.sent(sequence.take(1), "cpu:0"), sequence._stretch[sequence._position - 1][None])
