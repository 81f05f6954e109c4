"""Torch optimisers and transforms of posteriors as samplers: the numbers of their own loops, chain by chain."""

import re
import sys
import warnings
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from harness import PluginError
from harness.cli.app import run
from harness.contracts.registry import load
from plugins.adapters.posteriors import Posteriors
from plugins.adapters.torch_optim import TorchOptim
from plugins.checking.gaussian import GaussianTask
from plugins.checking.law import path_of, trajectory, varying
from plugins.checking.suite import LAWS, check_samplers
from plugins.samplers.sgld import SGLD

pytestmark = pytest.mark.usefixtures("one_thread")

DOCS = Path(__file__).parents[3] / "docs" / "adapters.md"
SHIPPED = str(DOCS.parent / "examples" / "posteriors_samplers.py")
STEPS, CHAINS, DIM = 12, 3, 4
H = 0.05
ELEMENTWISE = {
    "sgd": lambda groups: torch.optim.SGD(groups, momentum=0.9, nesterov=True),
    "adam": lambda groups: torch.optim.Adam(groups, amsgrad=True),
    "adamw": lambda groups: torch.optim.AdamW(groups, weight_decay=0),
    "nadam": torch.optim.NAdam,
    "radam": torch.optim.RAdam,
    "rmsprop": lambda groups: torch.optim.RMSprop(groups, centered=True, momentum=0.5),
    "adagrad": torch.optim.Adagrad,
    "adamax": torch.optim.Adamax,
    "adadelta": torch.optim.Adadelta,
    "rprop": torch.optim.Rprop,
}
OTHERS = {"adafactor": lambda groups: torch.optim.Adafactor(groups, weight_decay=0)}


def adapted(optimiser, *, elementwise=False, step_unit=0):
    body = {"optimiser": lambda _, groups: optimiser(groups), "elementwise": elementwise, "step_unit": step_unit}
    return type("Made", (TorchOptim,), {**body, "__doc__": "An optimiser.", "__module__": __name__})()


TASK = GaussianTask(variance=0.5, curvatures=(0.5, 1.0, 2.0))


def check_it_is_sgld(sampler):
    path = trajectory(varying(SGLD(), TASK, STEPS, share=0.4), 1.0)
    positions = [path_of(each, TASK, path, CHAINS, 3) for each in (sampler, SGLD())]
    torch.testing.assert_close(*positions, rtol=1e-12, atol=1e-12)


class Silent:
    """A source of noise that nobody should ask."""


class Bowl:
    """U(theta) = sum_i i theta_i^4 / 4."""

    def grad(self, theta):
        return torch.arange(1, DIM + 1, dtype=theta.dtype) * theta**3


def start():
    return torch.linspace(-1, 1.5, CHAINS * DIM, dtype=torch.float64).reshape(CHAINS, DIM)


def advanced(sampler, theta, steps=STEPS):
    h, T = torch.tensor(H, dtype=torch.float64), torch.tensor(1.0, dtype=torch.float64)
    state = sampler.init(theta, Bowl(), h, T, Silent())
    for _ in range(steps):
        before = theta.clone(), {name: leaf.clone() for name, leaf in state.items()}
        new, after = sampler.step(theta, state, Bowl(), h, T, Silent())
        assert torch.equal(theta, before[0])
        assert all(torch.equal(leaf, before[1][name]) for name, leaf in state.items()), "a step changes its arguments"
        theta, state = new, after
    return theta


def trained(optimiser, row):
    """The loop of a training script."""
    parameter = row.clone().requires_grad_()
    kept = optimiser([{"params": [parameter], "lr": H}])
    for _ in range(STEPS):
        parameter.grad = Bowl().grad(parameter.detach())
        kept.step()
    return parameter.detach()


@pytest.mark.parametrize(
    ("name", "elementwise"), [(n, e) for n in ELEMENTWISE for e in (True, False)] + [(n, False) for n in OTHERS]
)
def test_a_chain_has_the_bits_of_torchs_own_loop(name, elementwise):
    optimiser = (ELEMENTWISE | OTHERS)[name]
    ends = advanced(adapted(optimiser, elementwise=elementwise), start())
    assert torch.equal(ends, torch.stack([trained(optimiser, row) for row in start()]))


class Counting(torch.optim.Optimizer):
    """What a step does is for subclasses."""

    def __init__(self, groups, **defaults):
        super().__init__(groups, {"lr": 1.0, **defaults})

    def step(self, closure=None):
        (group,) = self.param_groups
        (parameter,) = group["params"]
        self.move(group, parameter, self.state[parameter])


class Langevin(Counting):
    def move(self, group, parameter, state):
        noise = torch.randn_like(parameter) * (2 * group["lr"] * group["temperature"]) ** 0.5
        parameter.data += noise - group["lr"] * parameter.grad


class Forgetful(Counting):
    def move(self, group, parameter, state):
        group["lr"] /= 2


class WithText(Counting):
    def move(self, group, parameter, state):
        state["name"] = "x"


class OfTheChain(Counting):
    def move(self, group, parameter, state):
        state["norm"] = parameter.grad.norm()[None]


class Dice(Counting):
    def move(self, group, parameter, state):
        parameter.data *= torch.bernoulli(torch.full_like(parameter, 0.5))


@pytest.mark.parametrize("elementwise", [True, False])
def test_noise_comes_from_the_streams_of_the_chains(elementwise):
    check_it_is_sgld(adapted(Langevin, elementwise=elementwise, step_unit=-1))


@pytest.mark.parametrize(
    ("optimiser", "elementwise", "words"),
    [
        (torch.optim.LBFGS, False, "can have no closure"),
        (torch.optim.SparseAdam, False, "failed"),
        (lambda groups: torch.optim.AdamW(groups, weight_decay=0.1), True, "the prior belongs to the task"),
        (lambda groups: torch.optim.Adam(groups, betas=(2, 3)), True, "torch refuses to make it"),
        (lambda _: torch.optim.Adam, True, "not a torch.optim.Optimizer"),
        (Forgetful, False, "changes its parameter group"),
        (WithText, False, "is not a tensor"),
        (OfTheChain, True, "set elementwise = False"),
        (Dice, True, "calls torch's bernoulli"),
    ],
)
def test_what_it_cannot_be_is_refused(optimiser, elementwise, words):
    with pytest.raises(PluginError, match=re.escape(words)):
        advanced(adapted(optimiser, elementwise=elementwise), start())


# -- posteriors


@pytest.fixture
def library():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what tensordict says of the library's classes
        return pytest.importorskip("posteriors", reason="needs the extra posteriors")


def transformed(build, *, elementwise):
    body = {"transform": lambda _, *given: build(*given), "elementwise": elementwise}
    return type("Made", (Posteriors,), {**body, "__doc__": "A transform.", "__module__": __name__})()


@pytest.mark.parametrize("elementwise", [True, False])
def test_their_sgld_has_the_numbers_of_ours(library, elementwise):
    build = library.sgmcmc.sgld.build
    check_it_is_sgld(transformed(lambda f, h, T: build(f, lr=h, temperature=T), elementwise=elementwise))


class Still:
    """Normal numbers at T = 0."""

    def normal(self, like):
        return torch.zeros_like(like)


def test_a_chain_is_that_of_their_own_loop(library):
    def build(f, h, T):
        return library.sgmcmc.sgnht.build(f, lr=h.sqrt(), alpha=0.1, temperature=T)

    h, T = torch.tensor(H, dtype=torch.float64), torch.tensor(0.0, dtype=torch.float64)
    sampler, theta = transformed(build, elementwise=False), start()
    state = sampler.init(theta, Bowl(), h, T, Still())
    for _ in range(STEPS):
        theta, state = sampler.step(theta, state, Bowl(), h, T, Still())
    curvatures = torch.arange(1, DIM + 1, dtype=torch.float64)
    for row, end in zip(start(), theta, strict=True):
        transform = build(lambda p, _: (-(curvatures * p**4).sum() / 4, torch.zeros(0)), h, T)
        kept = transform.init(row).replace(momenta=torch.zeros_like(row))
        for _ in range(STEPS):
            kept, _ = transform.update(kept, None)
        torch.testing.assert_close(end, kept.params, rtol=1e-12, atol=1e-12)


class Own:
    """A state with a position only."""

    def __init__(self, params):
        self.params = params

    def to_dict(self):
        return {"params": self.params}


class Twice:
    """A transform that asks twice for the log posterior."""

    init = staticmethod(Own)

    def __init__(self, log_posterior, h, T):
        self.log_posterior = log_posterior

    def update(self, state, batch):
        for _ in range(2):
            self.log_posterior(state.params, batch)


class Nested(Own):
    def to_dict(self):
        return {**super().to_dict(), "moments": ()}


class KeepsATuple(Twice):
    init = staticmethod(Nested)

    def update(self, state, batch):
        return state, None


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (Twice, "more than once in a step"),
        (KeepsATuple, "'moments' of the transform's state is not a tensor"),
        (lambda *_: None, "returned None, which has no init and update"),
        (lambda *_: SimpleNamespace(init=Own), "which has no init and update"),
    ],
)
def test_a_transform_that_it_cannot_be_is_refused(build, words):
    with pytest.raises(PluginError, match=words):
        advanced(transformed(build, elementwise=True), start())


def example(name, folder):
    (text,) = re.findall(rf"```python\n(# {name}\.py.*?)```", DOCS.read_text(), re.DOTALL)
    (folder / f"{name}.py").write_text(text)
    return str(folder / f"{name}.py")


SLOW = {"coordinates", "time-homogeneity"}


@pytest.mark.slow
def test_the_optimiser_of_the_docs_runs_and_keeps_the_laws(tmp_path, capsys, monkeypatch):
    plugin = example("my_optimisers", tmp_path)
    words = ["--sampler", "adamax", "--task", "gaussian2d", "--budget", "smoke", "--seeds", "0"]
    assert run(["--results", str(tmp_path / "r"), "--plugin", plugin, "run", *words]) == 0, capsys.readouterr().err
    monkeypatch.syspath_prepend(tmp_path)
    (results,) = check_samplers([import_module("my_optimisers").Adamax()], {law.name for law in LAWS} - SLOW)
    assert [result for result in results if result.outcome == "failed"] == []


def test_a_library_that_is_not_installed_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "posteriors", None)
    assert run(["--plugin", example("my_transforms", tmp_path), "check", "their-sghmc"]) not in (0, 70)
    said = capsys.readouterr().err
    assert "posteriors" in said
    assert "Traceback" not in said


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("library")
@pytest.mark.slow
def test_the_transforms_of_the_docs_run(tmp_path, capsys):
    """The page's, and of the shipped ones that which is not elementwise: each process imports the library anew."""
    words = ["--budget", "smoke", "--seeds", "0", "--set", "schedule.step_size=0.01"]
    for plugin, sampler in ((example("my_transforms", tmp_path), "their-sghmc"), (SHIPPED, "their-sgnht")):
        where = ["--results", str(tmp_path / Path(plugin).stem), "--plugin", plugin]
        assert run([*where, "run", "--sampler", sampler, "--task", "gaussian2d", *words]) == 0, capsys.readouterr().err


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("library")
def test_every_shipped_transform_makes_steps_by_its_defaults(monkeypatch):
    monkeypatch.syspath_prepend(Path(SHIPPED).parent)
    offers = import_module("posteriors_samplers").bench_samplers()
    assert {info.name for info in offers} == {f"their-{name}" for name in ("sgld", "sglrw", "sghmc", "baoa", "sgnht")}
    for info in offers:
        positions = path_of(load(info.target)(), TASK, trajectory([0.01] * STEPS, 1.0), CHAINS, 3)
        assert positions.isfinite().all(), info.name
        assert (positions[1:] != positions[:-1]).any(), info.name
