"""Gradients of several chains of digits-cnn: in turn, as the harness computes them, and together by `vmap`.

python tests/benchmarks/chains.py '{"rounds": 5}' prints the record; one process on one core.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from networks import answer, seconds

CHAINS = (1, 4, 10, 40)


def gradients(chains: int) -> dict[str, Callable[[], Any]]:
    """Functions that return the gradient of the minibatch's likelihood for so many chains, in the two ways."""
    import torch
    from torch.nn.functional import cross_entropy

    from harness.contracts.randomness import Streams
    from harness.contracts.registry import load, registry

    task = load(registry().find("tasks", "digits-cnn").info.target)()
    problem = task.build([Streams(seed, 0) for seed in range(chains)], "cpu")
    theta = problem.initial()
    batch = {name: leaf[0] for name, leaf in problem.draw_batches(1).items()}
    parts = [next(iter(problem.parts(c, batch)))[1] for c in range(chains)]
    x, labels = (torch.stack(leaves) for leaves in zip(*parts, strict=True))
    network = problem.network
    network.module.train()

    def loss(weights: Any, inputs: Any, y: Any) -> Any:
        outputs = torch.func.functional_call(network.module, network.weights(weights), (inputs,))
        return cross_entropy(outputs, y, reduction="sum")

    together = torch.func.vmap(torch.func.grad(loss))
    prior = task.prior_precision * theta
    scaled = problem.multiple * together(theta, x, labels) + prior
    torch.testing.assert_close(scaled, problem.gradient(theta, batch), rtol=1e-3, atol=1e-2)
    return {"in turn": lambda: problem.gradient(theta, batch), "vmap": lambda: together(theta, x, labels)}


def measure(asked: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Seconds a chain, and whether `vmap` gives these chains the same bits as among the most."""
    import torch

    rows, values = [], {}
    for chains in CHAINS:
        ways = gradients(chains)
        times: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(asked["rounds"]):
            for name, act in ways.items():
                times[name].append(seconds(act, max(1, 20 // chains), "cpu") / chains)
        values[chains] = ways["vmap"]()
        rows.append({"chains": chains, "times": times})
    most = values[max(CHAINS)]
    return [{**row, "same": torch.equal(values[row["chains"]], most[: row["chains"]])} for row in rows]


if __name__ == "__main__":
    answer(measure)
