"""Normals drawn by C++ of our own: the bits of torch's `normal_`, or torch's itself."""

import platform
import shutil
from pathlib import Path

import pytest
import torch

from harness.contracts import randomness
from harness.contracts.randomness import LONG, ChainNoise, Slot, Streams, _fill
from harness.system.cpp import COMPILERS

pytestmark = pytest.mark.numbers

SIZES = (LONG, LONG + 1, LONG + 15, 624 * 64, 100_003)


@pytest.fixture
def fresh():
    """The choice made anew."""
    randomness._fast_normals.cache_clear()
    yield
    randomness._fast_normals.cache_clear()


def drawn(sizes, begun, fill=_fill):
    """Successive draws and the state after them, from a generator that has drawn `begun` numbers already."""
    generator = Streams(3, 0).torch("noise")
    torch.empty(begun).uniform_(generator=generator)
    parts = [torch.empty(size) for size in sizes]
    for part in parts:
        fill(part, "normal", generator)
    return torch.cat(parts), generator.get_state()


def plainly(sizes, begun):
    return drawn(sizes, begun, lambda part, _, generator: part.normal_(generator=generator))


@pytest.mark.parametrize("begun", [0, 1, 623, 624, 1000])
def test_the_bits_are_those_of_torch_wherever_its_generator_is(begun):
    for ours, wanted in zip(drawn(SIZES, begun), plainly(SIZES, begun), strict=True):
        assert torch.equal(ours, wanted)


@pytest.mark.usefixtures("fresh")
def test_they_are_drawn_by_our_own_code_on_the_processors_it_is_for():
    able = platform.system() == "Linux" and "avx2" in Path("/proc/cpuinfo").read_text()
    able = able and torch.backends.cpu.get_cpu_capability() != "DEFAULT"  # then torch draws other bits
    if not (able and any(map(shutil.which, COMPILERS))):
        pytest.skip("no x86 processor with AVX2, or no compiler")
    assert randomness._fast_normals() is not None


class _Another:
    """Code that draws other numbers."""

    @staticmethod
    def draw(*_):
        pass


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("code", [None, _Another])
def test_where_the_code_cannot_be_made_or_draws_other_numbers_torch_draws(monkeypatch, code):
    monkeypatch.setattr(randomness, "compiled", lambda _: code)
    assert randomness._fast_normals() is None
    assert torch.equal(drawn([LONG], 0)[0], plainly([LONG], 0)[0])


def test_the_noise_of_chains_has_these_bits():
    streams = [Streams(0, chain) for chain in range(2)]
    noise = ChainNoise([s.torch("noise") for s in streams], [Slot("normal", (LONG,), torch.float32)])
    (normals,) = noise.draw(2, heated=True)
    for chain, stream in enumerate(streams):
        wanted = torch.empty(2, LONG).normal_(generator=stream.torch("noise"))
        assert torch.equal(normals[:, chain], wanted)


@pytest.mark.usefixtures("fresh")
def test_the_code_is_compiled_before_the_first_step_whose_time_is_taken(monkeypatch):
    noise = ChainNoise([Streams(0, 0).torch("noise")], [Slot("normal", (LONG,), torch.float32)])
    monkeypatch.setattr(randomness, "compiled", lambda _: pytest.fail("compiled among the steps"))
    noise.draw(2, heated=True)
