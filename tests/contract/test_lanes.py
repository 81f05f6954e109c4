"""Steps in C++: every operation of `operations` gives what torch gives, at ordinary and at odd numbers."""

import math

import numpy as np
import pytest
import torch

from harness.engine.stepping import execution_mode, native
from harness.engine.stepping.block import Block
from harness.engine.stepping.lanes import Unsupported
from harness.engine.stepping.native import Native
from harness.system.cpp import built

pytestmark = pytest.mark.skipif(execution_mode.obstacle() is not None, reason=f"compiled: {execution_mode.obstacle()}")
ODD = (0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-300, -1e300, 0.5, 710.0, -709.0)
CHAINS = 11
TABLE = torch.arange(12.0, dtype=torch.float64).reshape(4, 3)
MASK = torch.tensor([True, False, True])


def run(step, theta, state=None, steps=2):
    """Theta, state and draws after some steps in C++."""
    rows = torch.linspace(0.1, 0.2, steps, dtype=torch.float64)
    block = Block(rows, rows + 1, (), (), {}, np.ones(steps, dtype=bool), adapt=False)
    state = state or {}
    with torch.no_grad():
        return Native(step, theta, state, block).advance(theta, state, block, theta.shape[1])


def check(functions, theta, rtol=1e-13):
    """Functions of theta become the state, all in one step; each must be what torch makes of it."""
    names = {f"f{number:02}": function for number, function in enumerate(functions)}

    def step(x, *_):
        return x, {name: function(x) for name, function in names.items()}, x, None

    wanted = {name: function(theta) for name, function in names.items()}
    state = run(step, theta, {name: torch.zeros_like(leaf) for name, leaf in wanted.items()}).state
    for name, leaf in wanted.items():
        assert state[name].dtype == leaf.dtype
        assert torch.allclose(state[name].double(), leaf.double(), rtol=rtol, atol=1e-300, equal_nan=True), name


POINTWISE = [
    lambda x: x + 2 * x, lambda x: 3 - x, lambda x: x * 2 - x / 3, lambda x: 1 / x, lambda x: -x, torch.abs, torch.exp,
    torch.log, torch.sqrt, torch.rsqrt, torch.floor, torch.ceil, torch.round, torch.trunc, torch.tanh, torch.expm1,
    torch.log1p, torch.sigmoid, torch.erf, lambda x: x**2, lambda x: x**3, lambda x: x**0.5, lambda x: x**-1.0,
    lambda x: x**1.7, lambda x: torch.maximum(x, 1 - x), lambda x: torch.minimum(x, 1 - x), lambda x: x.clamp(-1, 2),
    lambda x: x.clamp(min=0.5), lambda x: torch.where(x > 0, x, -2.0), lambda x: x.masked_fill(x < 0, 7.0),
    lambda x: x < 1, lambda x: x <= 1, lambda x: x > 1, lambda x: x >= 1, lambda x: x == 1, lambda x: x != 1,
    lambda x: (x > 0) & (x < 1), lambda x: (x > 0) | (x < -1), lambda x: (x > 0) ^ (x > 1), lambda x: ~(x > 0),
    lambda x: (x > 0) * (x < 2), lambda x: (x > 0) + (x < 2), lambda x: (x > 0) < (x < 1), lambda x: (x > 0) * x,
    lambda x: (x > 0) == (x < 1), lambda x: (x > 0) * 3, torch.isfinite, torch.isnan,
    lambda x: x.nan_to_num(), lambda x: x.nan_to_num(1.0, 2.0, 3.0), lambda x: torch.maximum(x > 0, x < 1),
    torch.nn.functional.logsigmoid, lambda x: torch.full_like(x, 3.0) * x,
]  # fmt: skip

SHAPED = [
    lambda x: x.sum(1), lambda x: x.mean(1, keepdim=True), lambda x: x.prod(1), lambda x: x.amax(1),
    lambda x: x.amin(1),
    lambda x: (x > 0).all(1), lambda x: (x > 0).any(1), lambda x: (x > 0).sum(1),
    lambda x: x.cumsum(1), lambda x: x.T.T,
    lambda x: (x > 0).cumsum(1), lambda x: x.max(1).values, lambda x: x.softmax(1), lambda x: x.log_softmax(1),
    lambda x: x.logsumexp(1), lambda x: x[:, 1:], lambda x: x[:, ::2], lambda x: x[:, -1],
    lambda x: x[:, None, :] * x[:, :, None],
    lambda x: x.unflatten(1, (2, 6)).sum(2), lambda x: x.unflatten(1, (3, 4)).transpose(1, 2).flatten(1),
    lambda x: torch.cat([x, 2 * x[:, :2]], 1), lambda x: torch.stack([x, -x], 1), lambda x: x[:, :4] @ TABLE,
    lambda x: torch.bmm(x.unflatten(1, (3, 4)), x.unflatten(1, (4, 3))),
    lambda x: TABLE[x[:, :2].clamp(-4, 3).long()],
    lambda x: x.gather(1, x[:, :5].clamp(-1, 11).nan_to_num().abs().long()), lambda x: x[:, torch.tensor([3, -1])],
    lambda x: torch.arange(12) * x, lambda x: torch.eye(12, dtype=x.dtype) * x[:, :, None], lambda x: x[:, :3] * MASK,
    lambda x: x.unflatten(1, (3, 4))[:, :, :3].diagonal(dim1=1, dim2=2),
    lambda x: torch.ones(len(x), 2, dtype=x.dtype) * x[:, :1],
    torch.func.grad(lambda y: (y.sigmoid() * y.exp().log()).sum()), lambda x: x.unbind(1)[2],
    lambda x: torch.where(MASK, x[:, :3], TABLE[1]), lambda x: (x[:, :4, None] * TABLE).sum((1, 2)),
]  # fmt: skip


def positive(x):
    """Positive definite matrices (C, 2, 3, 3)."""
    root = x[:, :9].unflatten(1, (3, 3)).unsqueeze(1) * torch.tensor([1.0, 2.0], dtype=x.dtype)[:, None, None]
    return root @ root.mT + torch.eye(3)


def root(x):
    return torch.linalg.cholesky_ex(positive(x)).L


LINEAR = [
    lambda x: x.argmax(1), lambda x: x.argmin(1, keepdim=True), lambda x: x.max(1).indices, lambda x: x.min(1).values,
    lambda x: x.round().max(1, keepdim=True).indices, lambda x: sum(x.unflatten(1, (3, 4)).max(2)),
    positive, root, lambda x: torch.linalg.cholesky_ex(positive(x)).info, lambda x: torch.cholesky_inverse(root(x)),
    lambda x: torch.cholesky_solve(x.unflatten(1, (2, 3, 2)), root(x)),
    lambda x: torch.linalg.solve_triangular(root(x), x.unflatten(1, (2, 3, 2)), upper=False),
    lambda x: torch.linalg.solve_triangular(root(x).mT, x.unflatten(1, (2, 3, 2)), upper=True),
    lambda x: torch.linalg.cholesky_ex(positive(x) - 3 * torch.eye(3)).info, lambda x: positive(x) @ root(x) @ root(x),
    lambda x: x + torch.tensor(0.1), lambda x: (x.long() + 1) * 0.1 / 3, lambda x: torch.eye(4)[0] * x[:, :4],
    lambda x: (x[:, :, None] + torch.zeros(4_000, dtype=x.dtype)).cumsum(2)[:, :, -1],
]  # fmt: skip


def test_elements_are_those_of_torch():
    generator = torch.Generator().manual_seed(1)
    odd = torch.tensor([list(ODD)], dtype=torch.float64).expand(CHAINS, -1).clone()
    check(POINTWISE, 3 * torch.randn(CHAINS, 12, generator=generator, dtype=torch.float64))
    check(POINTWISE, odd)


def test_shapes_and_sums_are_those_of_torch():
    generator = torch.Generator().manual_seed(2)
    check(SHAPED, torch.randn(CHAINS, 12, generator=generator, dtype=torch.float64), rtol=1e-12)


def test_places_factors_and_solutions_are_those_of_torch():
    generator = torch.Generator().manual_seed(3)
    check(LINEAR, torch.randn(CHAINS, 12, generator=generator, dtype=torch.float64), rtol=1e-9)
    check(LINEAR[:6], torch.tensor([list(ODD)], dtype=torch.float64).expand(CHAINS, -1).clone())


WIDE = torch.arange(260.0, dtype=torch.float64).reshape(13, 20).sin()
REDUCED = [
    lambda x: (x[:, :, None] * WIDE).sum(1), lambda x: (x[:, :, None] * WIDE).sum(2), lambda x: (x @ WIDE).exp().sum(1),
    lambda x: (x[:, :, None] * WIDE[:, :9]).amax(1), lambda x: (x[:, :, None] * WIDE).amin(2),
    lambda x: x @ WIDE @ WIDE.T,
    lambda x: (x[:, :, None] + WIDE).prod(2), lambda x: (WIDE[x.long().clamp(0, 12)] * x[:, :, None]).sum((1, 2)),
    lambda x: (WIDE[x.long().clamp(0, 12)] * x[:, :, None]).sum(1), lambda x: (x[:, :, None, None] * WIDE).sum((1, 3)),
    lambda x: (WIDE[x.long().clamp(0, 12)] * x[:, :1, None]).sum(2).sigmoid(), lambda x: (x[:, :, None] > WIDE).sum(2),
    lambda x: (x[:, :, None] * WIDE).logsumexp(2), lambda x: (x[:, :, None] * WIDE.repeat(1, 60)).sum(2),
    lambda x: (x[:, :, None] * WIDE.repeat(1, 60)).tanh().sum(1),
]  # fmt: skip
"""Sums of enough elements that those of one chain are computed in vectors."""


@pytest.mark.parametrize(("functions", "size"), [(POINTWISE, 12), (SHAPED, 12), (LINEAR, 12), (REDUCED, 13)])
@pytest.mark.parametrize("odd", [False, True])
def test_the_bits_of_a_chain_do_not_depend_on_others(functions, size, odd):
    theta = 3 * torch.randn(CHAINS, size, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    if odd:
        theta[::2, : len(ODD)] = torch.tensor(ODD, dtype=torch.float64)
        functions = LINEAR[:6] if functions is LINEAR else functions
    else:
        check(functions, theta, rtol=1e-9)
    names = {f"f{number:02}": function for number, function in enumerate(functions)}

    def step(x, *_):
        return x, {name: function(x) for name, function in names.items()}, x, None

    def states(x):
        return run(step, x, {name: torch.zeros_like(function(x)) for name, function in names.items()}).state

    whole = states(theta)
    for count in (1, 2, 5):
        for name, leaf in states(theta[:count]).items():
            alone, among = leaf.double().numpy(), whole[name][:count].double().numpy()
            np.testing.assert_array_equal(alone, among, err_msg=f"{name}, {count} chains")
            np.testing.assert_array_equal(*(np.signbit(x) & (x == 0) for x in (alone, among)))


@pytest.mark.parametrize("chains", [1, 3, CHAINS])
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float32, torch.float64])
def test_a_large_constant_is_stored_in_the_smallest_type_that_has_its_numbers(monkeypatch, kind, chains):
    generator = torch.Generator().manual_seed(6)
    table = torch.randn(100, 21, generator=generator, dtype=torch.float64).to(kind).double()
    table[3], table[4] = -0.0, math.inf

    def step(x, *_):
        rows = table[(10 * x).long().clamp(0, 99)]
        return rows.sum(1)[:, :12] / x, {"s": rows[:, :, 0] * x, "t": rows.sum(2) + table[5, :12]}, x, None

    theta = torch.linspace(-0.1, 1.2, 12 * chains, dtype=torch.float64).view(chains, 12)
    state = {name: torch.zeros_like(theta) for name in "st"}
    block = Block(*(torch.ones(1, dtype=torch.float64),) * 2, (), (), {}, np.ones(1, dtype=bool), adapt=False)
    compiled = {}
    for limit in (1_000, 10_000):
        monkeypatch.setattr(native, "LARGE", limit)
        compiled[limit] = Native(step, theta, state, block)
    for stored in (kind, torch.float64):
        of_each = [each.advance(theta, state, block, 12) for each in compiled.values()]
        assert [each.constants[0].dtype for each in compiled.values()] == [stored, torch.float64]
        for one, other in zip(*([done.theta, *done.state.values()] for done in of_each), strict=True):
            assert torch.equal(one.view(torch.int64), other.view(torch.int64))
        table[0, 0] = 1.0 + 2.0**-40  # a later block reads the numbers as they are then


def changed(x):
    y, z = x + 1, x.exp()
    y += x
    y.mul_(2).clamp_(max=3.0)
    z -= y
    return y * z


def changed_beside_a_view(x):
    y = x + 1
    first = y[:, 0]
    y += x
    return y * first[:, None]


def test_what_is_changed_in_place_is_what_it_has_become():
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(CHAINS, 12, generator=generator, dtype=torch.float64)
    check([changed, lambda x: (x > 0).long().add_(2), lambda x: x.sum(1).div_(3)], x)
    for function in (changed_beside_a_view, lambda x: x.add_(1)):
        with pytest.raises(Unsupported, match="add_"):
            check([function], x.clone())


@pytest.fixture
def sources(monkeypatch):
    """The texts that are compiled."""
    noted = []
    monkeypatch.setattr("harness.engine.stepping.native.built", lambda text: noted.append(text) or built(text))
    return noted


@pytest.mark.parametrize("chains", [1, CHAINS])
def test_the_header_of_intrinsics_is_read_for_steps_that_use_it(sources, chains):
    table = torch.arange(4.0, dtype=torch.float64)
    x = torch.linspace(-1, 1, chains * 3, dtype=torch.float64).reshape(chains, 3)
    for moved, header in ((lambda x: 0.5 * x, "0"), (lambda x: table[(x > 0).long()], "1")):
        run(lambda theta, *_, moved=moved: (moved(theta), {}, moved(theta), None), x, steps=1)
        assert f"#define MOVES {header}\n" in sources[-1]


def test_steps_that_differ_in_their_numbers_are_compiled_once(sources):
    x = torch.linspace(-1, 1, CHAINS * 3, dtype=torch.float64).reshape(CHAINS, 3)

    def step_with(a, b):
        def step(theta, *_):
            moved = a * theta + b / (theta - 7.3).clamp(max=b)
            return moved, {}, moved, None

        return step

    for a, b in ((0.3, 1.7), (-0.9, 3.1), (math.inf, 0.7), (math.nan, 0.7)):
        step = step_with(a, b)
        assert torch.allclose(run(step, x, steps=1).theta, step(x)[0], rtol=1e-13, equal_nan=True)
    assert len({*sources}) == 1
    run(step_with(0.3, 0.3), x)  # one number in two places is another step
    run(step_with(2.0, 0.3), x)  # a power of two stays in the code
    assert len({*sources}) == 3
