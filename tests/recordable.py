"""What a GPU can record and what it refuses, as it was seen on an H200 with torch 2.11."""

from __future__ import annotations

import torch

RECORDED = (
    "t.linalg.cholesky_ex(A).L", "t.linalg.inv_ex(A).inverse", "t.linalg.solve_ex(A, b).result",
    "t.linalg.lu_factor_ex(A)", "t.linalg.solve_triangular(A, b, upper=True)", "t.linalg.qr(A)", "t.linalg.det(A)",
    "t.linalg.slogdet(A)", "t.linalg.lu(A)", "t.linalg.matrix_power(A, 3)", "t.linalg.vector_norm(v)", "A.logdet()",
    "t.cholesky_inverse(A[0])", "t.cholesky_solve(b[0], A[0])", "t.geqrf(A)", "v[i]", "t.where(m, v, 0.0)",
    "t.nonzero_static(v, size=7)", "v.masked_fill(m, 0.0)", "v.masked_scatter(m, v)", "v.repeat_interleave(2)",
    "v.repeat_interleave(i, output_size=9)", "v.histc(3, 0, 1)", "v.median()", "v.mode()", "v.kthvalue(2)",
    "v.sort()", "v.topk(2)", "v.cumsum(0)", "F.one_hot(i, 9)", "F.cross_entropy(A[0], i[:5])",
    "F.binary_cross_entropy(v.sigmoid(), v.sigmoid())", "F.embedding(i, A[0])", "F.pdist(A[0])",
    "A[0].index_put((i,), v[:5])", "A[0].index_put((i,), v[:5], accumulate=True)",
    "A[0].scatter_add(0, i[None, :5], A[0])",
    "t.bucketize(v, v.sort()[0])", "t.count_nonzero(v)", "t.scalar_tensor(2.0, device=v.device)",
    "t.full((3,), 2.0, device=v.device)", "t.arange(3, device=v.device)", "t.eye(3, device=v.device)", "t.fft.fft(v)",
    "t.block_diag(A[0], A[0])", "t.autograd.grad((w * w).sum(), w)", "v.shape", "v.data_ptr()",
)  # fmt: skip

REFUSED = (
    "t.linalg.cholesky(A)", "t.linalg.cholesky_ex(A, check_errors=True)", "t.linalg.inv(A)", "A.inverse()",
    "t.linalg.solve(A, b)", "t.linalg.eigh(A)", "t.linalg.eigh(A[0])", "t.linalg.eigvalsh(A)", "t.linalg.eig(A[0])",
    "t.linalg.svd(A)", "t.linalg.svd(A[0])", "t.linalg.svdvals(A)", "t.linalg.lu_factor(A)", "t.linalg.lstsq(A, b)",
    "t.linalg.pinv(A)", "t.linalg.pinv(A, hermitian=True)", "t.linalg.matrix_rank(A)", "t.linalg.matrix_exp(A)",
    "t.linalg.matrix_power(A, -1)", "t.linalg.matrix_norm(A, 2)", "t.linalg.cond(A)", "t.linalg.ldl_factor_ex(A)",
    "v[m]", "v[[0, 2]]", "v[t.tensor([0])]", "v.nonzero()", "v.masked_select(m)", "v.unique()",
    "v.unique_consecutive()", "v.repeat_interleave(i)", "i.bincount()", "i.bincount(minlength=9)", "v.histc(3)",
    "F.one_hot(i)", "F.gaussian_nll_loss(v, v, v.abs())", "A[0].corrcoef()", "t.svd_lowrank(A[0], 2)",
    "t.distributions.MultivariateNormal(v[:5], A[0])", "t.allclose(v, v)", "v.sum().item()", "v.tolist()",
    "float(v[0])", "m[0].is_nonzero()", "3 in v", "str(v)", "v.cpu()", "t.empty(7).copy_(v)", "v.copy_(t.ones(7))",
    "t.ones(7).to(v.device)", "t.tensor([1.0, 2.0], device=v.device)", "t.tensor(1.0, device=v.device)",
    "v.new_tensor([1.0])", "t.randn(3, device=v.device, generator=g)", "t.cuda.synchronize()",
    "t.cuda.current_stream().synchronize()", "e.record() or e.synchronize()", "e.record() or e.query()",
)  # fmt: skip

REFUSED_BY_MAGMA = ("t.cholesky_inverse(A)", "t.cholesky_solve(b, A)")
"""Newer versions of torch are built without MAGMA."""


def record(expression):
    """Evaluate an expression on a GPU twice, then record it as a CUDA graph and replay it."""
    t, device = torch, "cuda:0"
    v = torch.linspace(-1, 1, 7, dtype=torch.float64).to(device)
    root = torch.linspace(-1, 1, 100, dtype=torch.float64).reshape(4, 5, 5).sin().to(device)
    A = root @ root.mT + 3 * torch.eye(5, dtype=torch.float64).to(device)
    names = {
        "t": t, "F": t.nn.functional, "A": A, "b": A[..., :1].clone(), "v": v, "m": v > 0,
        "i": t.tensor([0, 1, 2, 3, 1, 0, 2]).to(device), "w": v.clone().requires_grad_(),
        "g": t.Generator(device), "e": t.cuda.Event(),
    }  # fmt: skip
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        for _ in range(2):
            eval(expression, names)  # noqa: S307
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, None, stream):
        eval(expression, names)  # noqa: S307
    graph.replay()
    torch.cuda.synchronize()
