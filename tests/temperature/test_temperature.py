"""Loops written with the usual slips: `bench temperature` says what they sample, and which slip it is."""

import json
from pathlib import Path

import pytest
import torch
from torch.nn.functional import mse_loss

from harness import PluginError, UsageError
from harness.cli.app import run
from plugins.temperature.measure import TERMS, runs_of
from plugins.temperature.slips import find

pytestmark = pytest.mark.usefixtures("one_thread")

LENGTH = 60
"""Draws of a run in units of the loop's time."""
EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "sgld_loop.py"


def steps(model, data, optimiser, loss, variance=0.0, in_gradient=0.0, before=lambda: None, noise=torch.randn_like):
    """The training loop of all: steps on a loss of (x, y), with noise of a variance in the weights or the gradient."""
    while True:
        for x, y in data:
            before()
            optimiser.zero_grad()
            loss(x, y).backward()
            for p in model.parameters():
                p.grad += in_gradient**0.5 * noise(p)
            optimiser.step()
            with torch.no_grad():
                for p in model.parameters():
                    p.add_(variance**0.5 * noise(p))
            yield


def sgld(factor="N / 2", variance="2 * lr", decay="0", prior="0", **options):
    """A loop: the mean squared error times a factor, noise of a variance, a decay, a prior, formulas of N, n and lr.

    `momentum` is that of torch's SGD, `in_gradient` a formula of noise added to the gradient, `noise` draws it.
    """

    def train(model, data, lr):
        def value(formula):
            return eval(formula, {}, {"N": len(data.dataset), "n": data.batch_size, "lr": lr})  # noqa: S307

        optimiser = torch.optim.SGD(
            model.parameters(), lr=lr, weight_decay=value(decay), momentum=options.get("momentum", 0)
        )

        def loss(x, y):
            return value(factor) * mse_loss(model(x), y) + value(prior) * model.weight.square().sum() / 2

        in_gradient, noise = value(options.get("in_gradient", "0")), options.get("noise", torch.randn_like)
        yield from steps(model, data, optimiser, loss, value(variance), in_gradient, noise=noise)

    return train


def in_gradient(variance, momentum=0.0):
    """A loop that adds noise to the gradient, as the optimisers of many repositories do."""
    return sgld(variance="0", in_gradient=variance, momentum=momentum)


def of_temperature(power):
    """SGLD whose noise has a standard deviation proportional to a power of T."""

    def train(model, data, lr, temperature):
        return (yield from sgld(variance=f"2 * lr * {temperature ** (2 * power)}")(model, data, lr))

    return train


def decoupled(model, data, lr):
    """AdamW's decay: weights shrink by lr times the decay, whatever scales the gradient; the mean loss."""

    @torch.no_grad()
    def shrink():
        model.weight.mul_(1 - lr * 0.01)

    optimiser = torch.optim.SGD(model.parameters(), lr=lr)
    variance = 2 * lr / len(data.dataset)
    yield from steps(model, data, optimiser, lambda x, y: mse_loss(model(x), y) / 2, variance, before=shrink)


def adam(model, data, lr):
    optimiser, factor = torch.optim.Adam(model.parameters(), lr=lr), len(data.dataset) / 2
    yield from steps(model, data, optimiser, lambda x, y: factor * mse_loss(model(x), y), 2 * lr)


def decays(model, data, lr):
    """SGLD whose learning rate decays."""
    optimiser, factor = torch.optim.SGD(model.parameters(), lr=lr), len(data.dataset) / 2
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimiser, 0.995)
    for _ in steps(model, data, optimiser, lambda x, y: factor * mse_loss(model(x), y), 2 * lr):
        schedule.step()
        yield


slow = pytest.mark.slow
SLIPS = {
    "none": (sgld(), "1", None, ""),
    "mean loss": (sgld("1 / 2"), "N", None, "the loss is a mean over rows"),
    "sum over the minibatch": (sgld("n / 2"), "N / n", None, "the sum over a minibatch"),
    "N / n of a mean": (sgld("N / n / 2"), "n", None, "the mean over a minibatch is multiplied by N / n"),
    "squared error without 1/2": (sgld("N"), "0.5", None, "a mean squared error without its 1/2"),
    "noise of half the variance": (sgld(variance="lr"), "0.5", None, "the variance of the noise is lr"),
    "noise proportional to lr": (sgld(variance="lr**2"), "0.5 lr", None, "the standard deviation of the noise is lr"),
    "noise in the gradient": (in_gradient("2 * lr"), "lr^2", None, "is added to the gradient"),
    "noise over N, loss a sum": (sgld(variance="2 * lr / N"), "1 / N", None, "divided by N, but the loss is a sum"),
    "decay of the mean": (sgld("1 / 2", "2 * lr / N", decay="0.01"), "1", "0.01 N", "grows with the data"),
    "prior times N": (sgld(prior="N"), "1", "N", "grows with the data"),
    "prior in each minibatch": (sgld(prior="N / n"), "1", "N / n", "add it to the loss once"),
    "momentum without its friction": (
        in_gradient("2 / lr", momentum=0.9),
        "10",
        None,
        "the noise has to be added to the momentum",
    ),
    "decoupled decay": (decoupled, "1", "0.01 N", "grows with the data"),
    "T twice": (of_temperature(1), "T^2", None, "multiplied by T"),
    "T forgotten": (of_temperature(0), "1", None, "does not depend on the temperature"),
}
"""Loop, temperature, prior precision, and words of the cause."""
QUICK = ["sum over the minibatch"]


def about(formula, measured):
    """Whether a law is a formula, up to the last digit of its constant."""
    if formula is None or measured is None:
        return formula is None and measured is None
    words, said = formula.split(), str(measured).split()
    try:
        first, other = float(words[0]), float(said[0])
    except ValueError:
        return words == said
    return words[1:] == said[1:] and other == pytest.approx(first, rel=0.12)


@pytest.mark.slow
@pytest.mark.parametrize("slip", [name if name in QUICK else pytest.param(name, marks=slow) for name in SLIPS])
def test_the_slip_is_named(slip):
    loop, temperature, prior, words = SLIPS[slip]
    finding = find(*runs_of(loop, slip, LENGTH))
    assert about(temperature, finding.temperature), finding
    assert about(prior, finding.prior), finding
    assert words in f"{finding.cause}; {finding.about_prior}"
    assert finding.right == (temperature == "1" and "T" not in slip)


RIGHT = {
    "the smaller step of Welling and Teh": sgld("N / 4", "lr"),
    "mean loss, noise over N": sgld("1 / 2", "2 * lr / N"),
    "friction": in_gradient("0.2 / lr", momentum=0.9),
    "noise over lr": in_gradient("2 / lr"),
    "T": of_temperature(0.5),
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=slow) for name in RIGHT])
def test_what_is_right_is_called_right(name):
    finding = find(*runs_of(RIGHT[name], name, LENGTH))
    assert finding.right, finding
    assert str(finding.temperature) == ("T" if name == "T" else "1")
    assert not finding.cause


@pytest.mark.parametrize(
    ("loop", "words"),
    [
        pytest.param(sgld(variance="0"), "it adds no noise", id="sgd", marks=slow),
        pytest.param(adam, "depends on the curvature", id="adam", marks=slow),
        pytest.param(sgld(noise=lambda _: torch.randn(())), "the same random number", id="shared", marks=slow),
    ],
)
def test_what_samples_no_posterior_is_not_given_a_temperature(loop, words):
    finding = find(*runs_of(loop, "loop", LENGTH))
    assert not finding.right
    assert words in finding.cause


@slow
def test_the_prior_that_the_file_states_is_compared():
    pilot, runs = runs_of(sgld(prior="1"), "loop", LENGTH)
    assert find(pilot, runs, 1.0).right
    assert find(pilot, runs).right
    wrong = find(pilot, runs, 4.0)
    assert not wrong.right
    assert "not 4 as the file states" in wrong.about_prior
    assert runs[0].prior.value == pytest.approx(1, abs=0.1)
    assert (runs[0].terms, runs[0].batch) == (TERMS, TERMS)


def fixed(model, data, lr):  # noqa: ARG001
    while True:
        yield


def short(model, data, lr):  # noqa: ARG001
    yield


def fails(model, data, lr):  # noqa: ARG001
    raise RuntimeError("no")
    yield


@pytest.mark.parametrize(
    ("loop", "words"),
    [
        (lambda: None, "is not a generator"),
        (lambda model, data, lr: (model, data, lr), "is not a generator"),
        (fixed, "comes to no rest at any learning rate"),
        (short, "ended; it has to go on"),
        pytest.param(decays, "no stationary distribution", marks=slow),
    ],
)
def test_a_loop_that_does_not_fit_is_a_usage_error(loop, words):
    with pytest.raises(UsageError, match=words):
        runs_of(loop, "loop", LENGTH)


def test_a_loop_that_fails_is_a_plugin_error():
    with pytest.raises(PluginError, match="RuntimeError: no"):
        runs_of(fails, "loop", LENGTH)


@pytest.mark.parametrize(
    ("text", "words", "code"),
    [
        (None, "is not a Python file", 2),
        ("x = 1\n", "defines no function train and no subclass", 2),
        ("import nothing_there\n", "nothing_there", 3),
        ("def train(model):\n    yield\n", "is not a generator", 2),
    ],
)
def test_a_wrong_file_is_an_error_without_a_traceback(tmp_path, capsys, text, words, code):
    file = tmp_path / "loop.py"
    if text:
        file.write_text(text)
    assert run(["--results", str(tmp_path / "results"), "temperature", str(file)]) == code
    said = capsys.readouterr().err
    assert words in said
    assert "Traceback" not in said
    assert not (tmp_path / "results").exists()


@slow
def test_an_optimiser_is_put_into_two_loops(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("plugins.temperature.command.LENGTH", LENGTH)
    file = tmp_path / "optimiser.py"
    file.write_text(
        "import torch\n\n\n"
        "class Mine(torch.optim.SGD):\n"
        "    def step(self):\n"
        "        super().step()\n"
        "        for group in self.param_groups:\n"
        "            for p in group['params']:\n"
        "                p.data.add_((2 * group['lr']) ** 0.5 * torch.randn_like(p))\n"
    )
    assert run(["--results", str(tmp_path), "temperature", str(file), "--json"]) == 0
    summed, mean = json.loads(capsys.readouterr().out)
    assert (summed["right"], summed["temperature"]) == (True, "1")
    assert (mean["right"], mean["temperature"]) == (False, "N")


@slow
def test_the_file_of_the_page_is_the_example():
    page = (EXAMPLE.parents[1] / "temperature.md").read_text(encoding="utf-8")
    (code,) = [block.split("```")[0] for block in page.split("```python\n")[1:]]
    space = {}
    exec(code, space)  # noqa: S102
    assert find(*runs_of(space["train"], "train", LENGTH), space["prior_precision"]).right
