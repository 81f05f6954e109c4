"""posteriors on the same targets: all chains as one batched parameter, the log posterior summed over them.

That is faster than torch.vmap over its update at every number of chains. States are appended, as its examples do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from serving import Work, serve
from setting import BATCH, FRICTION, Case
from targets import start, step_size, task_of


def prepare(case: Case) -> Work:
    import posteriors
    import torch

    torch.set_num_threads(1)
    torch.set_default_dtype(getattr(torch, case.dtype))
    steps = 2_000 if case.chains == 1 else 200 if case.chains <= 40 else 50
    if case.method == "sghmc":
        epsilon = step_size(case) ** 0.5
        transform = posteriors.sgmcmc.sghmc.build(log_posterior(case), lr=epsilon, alpha=FRICTION / epsilon)
    else:
        transform = posteriors.sgmcmc.sgld.build(log_posterior(case), lr=step_size(case))
    carry = {"state": transform.init(torch.from_numpy(start(case)))}
    task = task_of(case.task)
    rows = torch.from_numpy(task.design()).to(torch.get_default_dtype()) if case.task == "blr-german" else None

    def advance() -> Any:
        state, kept = carry["state"], []
        for _ in range(steps):
            batch = None if rows is None else rows[torch.randint(len(rows), (case.chains, BATCH))]
            state, _aux = transform.update(state, batch)
            kept.append(state.params)
        carry["state"] = state
        return torch.stack(kept)

    return Work(steps * case.chains, advance)


def log_posterior(case: Case) -> Callable[..., Any]:
    import torch

    nothing = torch.tensor([])
    if case.task == "blr-german":
        scale = task_of(case.task).terms() / BATCH

        def logistic(x: Any, batch: Any) -> Any:
            margins = (batch @ x[:, :, None])[:, :, 0]
            return scale * torch.nn.functional.logsigmoid(margins).sum() - x.square().sum() / 2, nothing

        return logistic
    task = task_of(case.task)
    mu = torch.from_numpy(task.means).to(torch.get_default_dtype())
    offset, pull = -mu.square().sum(1) / (2 * task.variance), mu.T.contiguous() / task.variance

    def modes(x: Any, _: Any) -> Any:
        return (torch.logsumexp(offset + x @ pull, 1) - x.square().sum(1) / (2 * task.variance)).sum(), nothing

    return modes


if __name__ == "__main__":
    serve(prepare)
