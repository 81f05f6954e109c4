from __future__ import annotations

import torch

from harness.contracts.chain_sequence import ChainSequence
from harness.contracts.randomness import Streams


def sequence(chains=3):
    generators = [Streams(0, chain).numpy("order") for chain in range(chains)]
    return ChainSequence(generators, lambda g: torch.from_numpy(g.standard_normal((7, 2))))


def test_the_cuts_do_not_change_the_sequence():
    whole = sequence().take(40)
    other = sequence()
    parts = torch.cat([other.take(n) for n in (1, 13, 7, 19)])
    assert whole.shape == (40, 3, 2)
    assert torch.equal(whole, parts)


def test_a_chain_has_its_own_numbers_whatever_its_neighbours():
    assert torch.equal(sequence(1).take(20), sequence(5).take(20)[:, :1])
    few = sequence(2).take(20)
    assert not torch.equal(few[:, 0], few[:, 1])


def test_it_goes_on_from_its_state_at_any_place():
    for place in (1, 3, 7, 10):
        first, second = sequence(), sequence()
        first.take(place)
        second.load({name: leaf.clone() for name, leaf in first.state().items()})
        assert torch.equal(first.take(15), second.take(15))


def test_its_state_does_not_change_as_it_goes_on():
    it = sequence()
    it.take(3)
    saved = {name: leaf.clone() for name, leaf in it.state().items()}
    before = it.state()
    it.take(30)
    assert all(torch.equal(saved[name], before[name]) for name in saved)
