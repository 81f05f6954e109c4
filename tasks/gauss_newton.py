"""The generalised Gauss-Newton matrix of a network's likelihood, in full or as Kronecker factors (KFAC)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from harness import PluginError, UsageError
from harness.tasks import Network, NetworkProblem, NetworkTask

if TYPE_CHECKING:
    from torch import Tensor, nn

    Factors = Mapping[int, Sequence[Tensor]]


def factors(
    network: Network, weights: Tensor, statistics: Tensor, inputs: Iterable[Tensor],
    roots: Callable[[Tensor], Tensor], *, last_layer: bool, full: bool,
) -> Factors:  # fmt: skip
    """Return G = sum_n J_n' R_n R_n' J_n, where J_n (K, D) is the Jacobian of the outputs for row n.

    With s_nkt (o,) the gradient of column k of R_n' outputs with respect to a layer's output at place t, and a_nt (i,)
    the layer's input there, G is approximated for its weights by sum s s' (o, o) Kronecker the mean of a a' (i, i), for
    its bias by sum s s'. The places are those of a convolution's kernel, or one. Normalisation is in evaluation mode.

    Args:
        network: of Linear and Conv2d layers; the parameters of others have no factors.
        weights: (D,).
        statistics: of normalisation, (B,).
        inputs: rows (n, ...), some at a time.
        roots: outputs (n, K) -> R (n, K, K), where R_n R_n' is the Fisher information of the outputs.
        last_layer: whether only the last layer has factors.
        full: whether the result is one matrix, without an approximation.

    Returns:
        By the index in theta of the first weight of a block: the factors (o, o) and (i, i), or one matrix.

    Raises:
        UsageError: if `full` is asked of a network with parameters of other layers.
        PluginError: if a layer is used twice.

    Source: J. Martens, R. Grosse, "Optimizing Neural Networks with Kronecker-factored Approximate Curvature", ICML
    2015; R. Grosse, J. Martens, "A Kronecker-factored Approximate Fisher Matrix for Convolution Layers", ICML 2016.
    """
    layers = {name: part for name, part in network.module.named_modules() if _is_supported(part)}
    last = list(layers)[-1]
    layers = {last: layers[last]} if last_layer else layers
    starts, start = {}, 0
    for block in network.layout.blocks:
        name, _, kind = block.name.rpartition(".")
        if name in layers:
            starts[name, kind] = start
        elif full and not last_layer:
            raise UsageError(
                f"the full Gauss-Newton matrix is of networks of Linear and Conv2d layers, not of {block.name}; "
                "set sampler.structure=kron"
            )
        start += block.size
    total: dict[int, list[Tensor]] = {}
    rows = 0
    for x in inputs:
        rows += len(x)
        for at, parts in _sums(network, layers, starts, weights, statistics, x, roots, full=full).items():
            total[at] = [a + b for a, b in zip(total[at], parts, strict=True)] if at in total else parts
    return {at: [parts[0], *(part / rows for part in parts[1:])] for at, parts in total.items()} if rows else {}


def _is_supported(part: nn.Module) -> bool:
    from torch import nn

    return isinstance(part, nn.Linear) or (isinstance(part, nn.Conv2d) and part.groups == 1)


def _sums(
    network: Network, layers: Mapping[str, Any], starts: Mapping[tuple[str, str], int], weights: Tensor,
    statistics: Tensor, x: Tensor, roots: Callable[[Tensor], Tensor], *, full: bool,
) -> dict[int, list[Tensor]]:  # fmt: skip
    """Return the factors of some rows, the second as a sum over rows."""
    import torch

    seen: dict[str, tuple[Tensor, Tensor]] = {}

    def keep(name: str) -> Callable[..., Tensor]:
        def hook(_: Any, given: tuple[Tensor], out: Tensor) -> Tensor:
            if name in seen:
                raise PluginError(f"the layer {name} is used twice in a forward pass; it has no Kronecker factors")
            seen[name] = given[0].detach(), out
            return out.clone()  # what follows may change it in place

        return hook

    hooks = [layer.register_forward_hook(keep(name)) for name, layer in layers.items()]
    try:
        with torch.enable_grad(), network.safe_kernels():
            outputs = network.forward(weights.detach().requires_grad_(), statistics.clone(), x, training=False)
            by_column = [
                torch.autograd.grad(outputs, [out for _, out in seen.values()], column, retain_graph=True)
                for column in roots(outputs.detach()).unbind(2)
            ]
    finally:
        for hook in hooks:
            hook.remove()
    given = {name: _places(layers[name], seen[name][0]) for name in seen}
    slopes = [
        {name: slope.flatten(2).mT if slope.dim() == 4 else slope.reshape(len(slope), -1, slope.shape[-1])
         for name, slope in zip(seen, column, strict=True)}
        for column in by_column
    ]  # fmt: skip
    if full:
        total = 0
        for one in slopes:
            blocks = [
                torch.einsum("nto,nti->noi", one[name], given[name]) if kind == "weight" else one[name].sum(1)
                for name, kind in starts
            ]
            jacobian = torch.cat([block.flatten(1) for block in blocks], dim=1)
            total = total + jacobian.mT @ jacobian
        return {min(starts.values()): [total]}
    outer = {name: sum(one[name].flatten(0, 1).mT @ one[name].flatten(0, 1) for one in slopes) for name in seen}
    inner = {name: a.flatten(0, 1).mT @ a.flatten(0, 1) / a.shape[1] for name, a in given.items()}
    return {
        start: [outer[name], inner[name]] if kind == "weight" else [outer[name]]
        for (name, kind), start in starts.items()
    }


def _places(layer: Any, x: Tensor) -> Tensor:
    """Return a layer's inputs (n, t, i) at each of its places, in the order of its weights in theta."""
    from torch.nn import functional

    if x.dim() != 4:
        return x.reshape(len(x), -1, x.shape[-1])
    mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
    x = functional.pad(x, layer._reversed_padding_repeated_twice, mode)  # noqa: SLF001 - as its own forward pass
    patches = functional.unfold(x, layer.kernel_size, layer.dilation, 0, layer.stride)
    return patches.unflatten(1, (layer.in_channels, -1)).permute(0, 3, 2, 1).flatten(2)


def softmax_roots(outputs: Tensor) -> Tensor:
    """Return R (n, K, K) = diag(sqrt p) - p sqrt(p)', p = softmax(outputs (n, K)): R R' is the Fisher information."""
    p = outputs.softmax(1)
    return p.sqrt().diag_embed() - p[:, :, None] * p.sqrt()[:, None]


def stacked(by_chain: Sequence[Factors]) -> Factors:
    """Return the factors of all chains, (C, r, r) each."""
    import torch

    first = by_chain[0]
    return {at: [torch.stack(each) for each in zip(*(one[at] for one in by_chain), strict=True)] for at in first}


PROVIDED = NetworkTask.provides | {"gauss_newton"}
"""What a task provides whose problem is a `GaussNewtonProblem`."""


class GaussNewtonProblem(NetworkProblem):
    """A `NetworkProblem` whose task provides "gauss_newton": of a module, or of what has one as `module_network`."""

    def gauss_newton(self, theta: Tensor, *, last_layer: bool, full: bool) -> tuple[Factors, float]:
        """Return the factors of the likelihood (C, r, r), and the precision of the prior."""
        task = type(self.task)
        if task.mean_loss is not NetworkTask.mean_loss or task.log_prior is not NetworkTask.log_prior:
            raise PluginError(f"{task.__name__}: gauss_newton is for cross-entropy and a normal prior")
        by_chain = [
            factors(
                getattr(self.network, "module_network", self.network), weights, self.buffers[c],
                (x for _, (x, _) in self.parts(c, None)), softmax_roots, last_layer=last_layer, full=full,
            )
            for c, weights in enumerate(theta)
        ]  # fmt: skip
        return stacked(by_chain), self.task.prior_precision
