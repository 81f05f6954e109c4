import numpy as np
import pytest
import torch

from harness.contracts.randomness import ChainNoise, Slot, Streams, _sequence, noise_generators

pytestmark = pytest.mark.numbers


def test_streams_differ_by_seed_name_axes_and_chain_and_beyond_32_bits():
    streams = [Streams(seed, chain, axes) for seed in (5, 5 + 2**32) for chain in (0, 1) for axes in ((), ("a",))]
    drawn = [torch.rand(4, generator=s.torch(name), dtype=torch.float64) for s in streams for name in ("x", "y")]
    assert len({tuple(row.tolist()) for row in drawn}) == len(drawn)


def test_the_whole_hash_enters_the_cpu_generator():
    stream = Streams(3, 1)
    words = np.random.MT19937(_sequence(stream.digest("noise"))).state["state"]["key"]
    state = stream.torch("noise").get_state().numpy()
    assert np.array_equal(state[24 : 24 + 624 * 8].view(np.uint64), words.astype(np.uint64))


def test_double_precision_on_the_cpu_is_drawn_by_numpy_and_all_else_by_torch():
    streams = [Streams(0, chain) for chain in range(2)]
    for dtype, kind in ((torch.float64, np.random.Generator), (torch.float32, torch.Generator)):
        one, other = noise_generators(streams, "cpu", dtype)
        assert isinstance(one, kind)
        assert one is not other


def test_a_shared_stream_is_the_same_for_all_chains():
    a, b = (Streams(1, chain).numpy("data", per_chain=False).random(3) for chain in (0, 7))
    assert np.array_equal(a, b)


@pytest.fixture(params=["numpy", "torch"])
def make(request):
    def noise(rows, slots):
        return ChainNoise([getattr(Streams(row, 0), request.param)("noise") for row in rows], slots)

    return noise


@pytest.mark.parametrize("rows", [[0], [0, 1], [3, 0, 7, 9, 2]])
def test_a_chains_noise_does_not_depend_on_its_neighbours(make, rows):
    slots = [Slot("normal", (3,), torch.float64), Slot("uniform", (1,), torch.float64)]
    alone = make([0], slots).draw(50, heated=True)
    together = make(rows, slots).draw(50, heated=True)
    at = rows.index(0)
    for slot in range(2):
        assert all(torch.equal(a[0], b[at]) for a, b in zip(alone[slot], together[slot], strict=True))


def test_no_normals_are_drawn_at_temperature_zero_but_uniforms_are(make):
    noise = make([0], [Slot("normal", (2,), torch.float64)])
    before = noise.state()
    cold = noise.draw(5, heated=False)
    assert torch.equal(noise.state(), before)
    assert cold[0].ndim == 0
    assert float(cold[0]) == 0.0


def test_state_round_trip(make):
    noise = make([0, 1], [Slot("normal", (2,), torch.float64)])
    noise.draw(7, heated=True)
    state = noise.state()
    first = [x.clone() for x in noise.draw(3, heated=True)[0]]
    noise.load(state)
    assert all(torch.equal(a, b) for a, b in zip(first, noise.draw(3, heated=True)[0], strict=True))
