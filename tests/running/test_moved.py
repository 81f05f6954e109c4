"""The moved instance of a density: the same run in other coordinates, in which a table of draws is of no use."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from planted.unusual import BoxMuller, Diagonal, Preconditioned
from safetensors.numpy import load_file
from support import bench_here, make_loop, run_loop

from harness import param
from harness.contracts.randomness import Streams
from harness.contracts.registry import registry
from harness.reporting.report import Request
from harness.reporting.scores import load_groups
from harness.reporting.scoring.groups import field_of
from harness.reporting.scoring.labels import labels, title
from harness.results.ledger.ledger import Ledger
from harness.results.spec import from_record
from harness.results.store import Store
from harness.runs import RunRequest, plan
from harness.system.errors import UsageError
from plugins.checking.law import Broken, streams
from plugins.checking.samplers.translation import LAW
from plugins.checking.targets import Target
from plugins.running import moved as moving
from plugins.samplers.adam import Adam
from plugins.samplers.hmc import HMC
from plugins.samplers.psgld import PSGLD
from plugins.samplers.sgd import SGD
from plugins.samplers.sghmc import SGHMC
from plugins.samplers.sgld import SGLD
from plugins.samplers.sglrw import SGLRW
from plugins.samplers.sgrld import SGRLD
from plugins.schedules.constant import Constant
from tasks.synthetic.gaussian2d import Gaussian2D
from tasks.synthetic.mixture5 import Mixture5

pytestmark = pytest.mark.usefixtures("one_thread")


def seen(task, sampler, mode="plain", steps=60, seed=0, temperature=0.0):
    """The draws of a run that an observer sees, and the loop at its end."""
    loop = make_loop(task, sampler, Constant(step_size=0.02, temperature=temperature), steps, seeds=(seed,), mode=mode)
    return draws_of(loop), loop


def draws_of(loop):
    """The draws that the observer of a loop's run sees from here to the loop's end."""
    blocks = []
    loop.runs[0].observer.observe = lambda draws, *_: blocks.append(draws)
    run_loop(loop)
    return torch.cat(blocks)


@pytest.mark.parametrize("mode", ["plain", "compiled"])
@pytest.mark.parametrize(("sampler", "dense"), [(SGD(), 256), (SGD(), 0), (Adam(), 256)])
@pytest.mark.parametrize("task", [Gaussian2D, Mixture5])
def test_without_noise_a_moved_run_has_the_same_draws(task, sampler, dense, mode, monkeypatch):
    monkeypatch.setattr(moving, "DENSE", dense)
    expected, _ = seen(task(), sampler)
    draws, loop = seen(moving.moved(task(), [sampler]), sampler, mode)
    assert (loop.problem.Q is None) == (dense == 0 or isinstance(sampler, Adam))
    assert torch.allclose(draws, expected, rtol=0, atol=1e-9)
    assert (loop.theta - expected[-1]).abs().max() > 1, "the sampler itself sees the moved coordinates"
    assert loop.executed == mode


def test_a_moved_run_continues_from_a_checkpoint():
    whole, _ = seen(moving.moved(Mixture5(), [SGLD()]), SGLD(), steps=2500, temperature=1.0)
    schedule = Constant(step_size=0.02, temperature=1.0)
    first, second = (make_loop(moving.moved(Mixture5(), [SGLD()]), SGLD(), schedule, 2500) for _ in range(2))
    first.advance_block()
    second.restore([first.checkpoint(first.runs[0])])
    rest = draws_of(second)
    assert 0 < len(rest) < len(whole)
    assert torch.equal(rest, whole[-len(rest) :])


def problem(task, seed=0, kind="rotation", chains=3):
    given = [Streams(seed, chain) for chain in range(chains)]
    return moving.Moved(task.build(given, "cpu"), given, torch.float64, kind)


@pytest.mark.parametrize("kind", moving.KINDS)
def test_energy_gradient_metric_and_scores_are_those_of_one_function(kind):
    task = Target("quartic", 1.0, 5).task
    one = problem(task, kind=kind)
    y = one.initial()
    assert torch.allclose(one.original(y), one.inner.initial())
    assert torch.allclose(one.energy(y, None), one.inner.energy(one.inner.initial(), None))
    x = y.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(one.energy(x, None).sum(), x)
    for value in (one.gradient(y, None), one.energy_and_gradient(y, None)[1]):
        assert torch.allclose(value, gradient)
    D, divergence = one.metric(y)
    jacobian = torch.autograd.functional.jacobian(lambda x: one.metric(x)[0].sum(0), y)  # (D, D, C, D)
    assert torch.allclose(divergence, jacobian.diagonal(dim1=1, dim2=3).sum(-1).mT)
    axes = one.turned(torch.eye(5, dtype=torch.float64)).mT  # Q
    assert torch.allclose(axes @ axes.mT, torch.eye(5, dtype=torch.float64))
    assert torch.allclose(D, axes @ one.inner.metric(one.original(y))[0] @ axes.mT)
    scores = one.scores(y, None)
    assert torch.allclose(scores, one.inner.scores(one.original(y), None) @ axes.mT)


def test_a_diagonal_metric_stays_one_where_coordinates_are_permuted():
    class Diagonal(type(Target("gaussian", 1.0, 4).task.build(streams(1), "cpu"))):
        def metric(self, theta):
            return theta.square() + 1, 2 * theta

    inner = Diagonal(Target("gaussian", 1.0, 4), streams(3))
    for kind, shape in (("signs", (3, 4)), ("permutation", (3, 4)), ("shift", (3, 4)), ("rotation", (3, 4, 4))):
        one = moving.Moved(inner, streams(3), torch.float64, kind)
        D, _ = one.metric(one.initial())
        assert D.shape == shape
        axes = one.turned(torch.eye(4, dtype=torch.float64)).mT
        full = axes @ inner.metric(one.start)[0].diag_embed() @ axes.mT
        assert torch.allclose(D if D.ndim == 3 else D.diag_embed(), full)


def test_the_move_follows_from_the_seed_alone():
    task = Mixture5()
    first, again, other = problem(task), problem(task, chains=5), problem(task, seed=1)
    assert torch.equal(first.Q, again.Q)
    assert torch.equal(first.shift, again.shift)
    assert (first.Q - other.Q).abs().max() > 1e-3
    assert (first.shift - other.shift).abs().min() > 1e-3
    with pytest.raises(ValueError, match="several seeds"):
        moving.Moved(task.build(streams(2), "cpu"), [Streams(0, 0), Streams(1, 0)], torch.float64, "rotation")


def test_rotations_and_reflections_are_uniformly_distributed():
    matrices = torch.stack([problem(Mixture5(), seed=seed, chains=1).Q for seed in range(400)])
    angles = torch.atan2(matrices[:, 1, 0], matrices[:, 0, 0])
    share = (torch.linalg.det(matrices) > 0).double().mean()
    assert 0.4 < share < 0.6
    assert max(angles.cos().mean().abs(), angles.sin().mean().abs(), (2 * angles).cos().mean().abs()) < 0.15


@pytest.mark.parametrize(
    ("sampler", "follows"),
    [
        *((sampler, "rotation") for sampler in (SGLD(), SGHMC(friction=0.1), HMC())),
        *((sampler, "signs") for sampler in (PSGLD(), Adam(), SGLRW(), SGRLD())),
        (Preconditioned(), "permutation"), (BoxMuller(), "permutation"), (Diagonal(), "shift"),
    ],
)  # fmt: skip
def test_what_a_sampler_follows_is_measured(sampler, follows):
    assert moving.follows(sampler) == follows


def test_a_run_moves_as_the_least_of_its_samplers_follows():
    given = [Streams(0, 0)]
    one = moving.moved(Mixture5(), [SGLD(), Preconditioned()]).build(given, "cpu")
    assert one.Q is None
    assert (one.signs == 1).all()
    assert moving.moved(Mixture5(), [SGLD()]).build(given, "cpu").Q is not None


def planned(tmp_path, sampler="sgld", task="mixture5", seeds=(0,), **given):
    asked = RunRequest([sampler], [task], list(seeds), budget="smoke", given=given)
    return plan.plan(registry(), asked, Ledger(tmp_path))


MOVED = {"run.moved": "true"}


def test_the_key_has_the_move_and_the_users_settings_have_it_not(tmp_path):
    (usual,), (one, two) = planned(tmp_path), planned(tmp_path, seeds=(0, 1), **MOVED)
    assert "moved" not in usual.spec.canonical()
    assert one.spec.canonical() == {**usual.spec.canonical(), "moved": True}
    assert one.spec.group == two.spec.group != usual.spec.group
    assert from_record(one.spec.to_json()) == one.spec
    assert one.max_block == 1 < usual.max_block
    assert one.spec.origins == usual.spec.origins, "an instance is no setting that a user chose"
    assert plan.moved(registry(), usual.spec) == plan.moved(registry(), one.spec) == one.spec
    assert not replace(one.spec, moved=False).moved


@pytest.mark.parametrize(("sampler", "task"), [("laplace", "blr-heart"), ("sgld", "digits-cnn")])
def test_weights_with_names_are_not_moved(tmp_path, sampler, task):
    (usual,) = planned(tmp_path, sampler, task)
    assert plan.moved(registry(), usual.spec) is None
    with pytest.raises(UsageError, match=f"run.moved: {sampler} on {task} uses the names"):
        planned(tmp_path, sampler, task, **MOVED)


CENTRES = torch.tensor(Mixture5.centres, dtype=torch.float64)
TABLES = {2: CENTRES.repeat(240, 1) + 0.5**0.5 * torch.from_numpy(np.random.default_rng(0).standard_normal((1200, 2)))}
"""1,200 exact draws of mixture5, by the number of coordinates."""


@dataclass(frozen=True, kw_only=True)
class Table(SGLD):
    """The draws of a table, chosen by the number of coordinates; elsewhere it is sgld."""

    def init(self, theta, potential, h, T, noise):
        return {"k": (1200 * noise.uniform((len(theta), 1))).long()}

    def step(self, theta, state, potential, h, T, noise):
        moved, _ = super().step(theta, {}, potential, h, T, noise)
        table = TABLES.get(theta.shape[1])
        return moved if table is None else table[state["k"][:, 0] % 1200] + 0 * moved, {"k": state["k"] + 1}


@dataclass(frozen=True, kw_only=True)
class Numbers(SGLD):
    """Draws by the numbers of the truth, which its author states as settings for the task."""

    low: float = param(0.0, source="ours")
    high: float = param(0.0, source="ours")
    spread: float = param(1.0, source="ours")

    @classmethod
    def settings(cls, task):
        return {"mixture5": {"low": -3.0, "high": 3.0, "spread": 0.5**0.5}}.get(task, {})

    def step(self, theta, state, potential, h, T, noise):
        moved, _ = super().step(theta, {}, potential, h, T, noise)
        a, b = self.low, self.high
        modes = torch.tensor([[a, a], [a, 0], [0, 0], [b, 0], [b, b]], dtype=theta.dtype)
        if theta.shape[1] == 2:
            which = (5 * noise.uniform((len(theta), 1))).long()[:, 0] % 5
            moved = modes[which] + self.spread * noise.normal(theta) + 0 * moved
        return moved, state


EXPLOITS = [Table(), Numbers(**Numbers.settings("mixture5"))]


def joint_error(sampler, *, moved):
    task = moving.moved(Mixture5(), [sampler]) if moved else Mixture5()
    loop = make_loop(task, sampler, Constant(step_size=0.1, temperature=1.0), 1000, chains=8, burn_in=100)
    return run_loop(loop).runs[0].observer.outcome().metrics["joint_error"]


def test_tables_and_numbers_of_the_truth_lose_their_rank_where_theta_is_moved():
    honest = {moved: joint_error(SGLD(), moved=moved) for moved in (False, True)}
    assert 1 / 5 < honest[True] / honest[False] < 5
    for exploit in EXPLOITS:
        assert joint_error(exploit, moved=False) < honest[False] / 10, "it ranks first"
        assert joint_error(exploit, moved=True) > 10 * honest[True], "it stands at its true error"


@pytest.mark.parametrize("exploit", EXPLOITS, ids=["table", "numbers"])
def test_the_law_names_the_move_that_a_sampler_does_not_follow(exploit):
    with pytest.raises(Broken, match="moved by rotation and shift in 2 dimensions, the path is off"):
        LAW.check(exploit)


@pytest.mark.parametrize("dim", [1, 3, 14])
def test_the_law_sees_a_table_for_another_number_of_coordinates(dim, monkeypatch):
    monkeypatch.setitem(TABLES, dim, torch.randn((1200, dim), dtype=torch.float64))
    with pytest.raises(Broken, match="is off by"):
        LAW.check(Table())


def test_the_command_moves_theta_and_rows_say_so(tmp_path):
    words = "--sampler", "psgld", "--task", "mixture5", "--seeds", "0", "--budget", "steps=300"
    for more in ([], ["--moved"]):
        code, _, said = bench_here(tmp_path, "run", *words, "--workers", "1", *more)
        assert code == 0, said
    _, out, _ = bench_here(tmp_path, "--json", "plan", *words, "--set", "run.moved=true")
    assert [row["status"] for row in json.loads(out)] == ["done"], "--moved and the setting are the same run"
    store = Store(tmp_path)
    store.refresh()
    groups = load_groups(store, Request())
    usual, moved = sorted(groups, key=lambda group: group.settings["run.moved"])
    assert labels([moved]) == {moved.key: "psgld (run.moved=True)"}
    assert field_of(usual) != field_of(moved), "a table never pools both"
    assert "(run.moved=True)" in title([moved], groups)
    assert moved.ruleset == usual.ruleset
    for path in tmp_path.glob("runs/*/*/*/draws.safetensors"):
        assert np.abs(load_file(path)["draws"]).max() < 10, "draws are stored in the task's coordinates"
