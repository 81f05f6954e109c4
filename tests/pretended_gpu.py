"""A GPU that is pretended on a CPU: tensors know on which side they lie, CUDA graphs record and replay.

Inside `PretendedGPU` a tensor made on or sent to "cuda:0" is a tensor of the CPU that is marked as the GPU's, and says
so (`device`, `is_cuda`). All arithmetic is real. What a GPU refuses is an error: operations on tensors of both sides,
NumPy views of the GPU's, generators of the other side. What makes Python wait for a GPU is noted in `waits`, and is an
error while a graph is recorded: copies from side to side, values read by Python, results whose shape depends on values,
constants made from Python numbers, random numbers, and scalars of the CPU, which a graph would keep for ever. Which
operations wait within torch is as it was seen on an H200 with torch 2.11; `test_gpu.py` compares them on a real one.

A recorded graph is the list of operations of torch on the GPU. As there, recording changes no tensor; a replay does all
operations again on the same memory, and none of the Python code. The tensors that were made meanwhile are the graph's:
elsewhere they can be copied after a replay, and any other use is an error. Compiled code is not pretended: tests take
the compiler away, and the sampler's update runs as plain torch.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from harness.contracts.module import ALIGNMENT

CUDA = torch.device("cuda:0")
READS = frozenset({
    "item", "tolist", "__bool__", "__int__", "__float__", "__index__", "is_nonzero", "equal", "allclose",
    "__contains__", "__repr__",
})  # fmt: skip
FROM_DATA = frozenset({"tensor", "as_tensor", "new_tensor", "asarray", "scalar_tensor_from_data"})
READING = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
CHECKING = frozenset({
    "_linalg_check_errors", "_linalg_eigh", "_linalg_eigvals", "_linalg_svd", "linalg_eig", "linalg_ldl_factor_ex",
    "linalg_lstsq", "linalg_matrix_exp", "linalg_pinv",
})  # fmt: skip
"""Operations that look on the CPU whether they have succeeded. Others do with `check_errors`."""
ONE_BY_ONE = frozenset({"cholesky_inverse", "cholesky_solve"})
"""Operations that wait if there are several matrices: up to torch 2.11, MAGMA does them."""
COPYING = frozenset({
    "_to_copy", "alias", "cat", "clone", "copy_", "detach", "select", "slice", "split", "stack", "unbind", "view",
})  # fmt: skip
ALIGNED = ("convolution", "native_batch_norm", "_native_batch_norm", "mkldnn_convolution", "miopen", "cudnn")
"""The beginnings of the names of operations whose kernels read vectors of `ALIGNMENT` bytes."""
BOTH_SIDES = frozenset({"copy_", "_to_copy", "index", "index_put", "index_put_", "_index_put_impl_"})

MARKED: dict[int, StorageWeakRef] = {}
"""The memory that is the GPU's, of all contexts: caches of the process hold tensors from one to the next."""


class GPUError(RuntimeError):
    """What a GPU would not do."""


@dataclass
class Recorded:
    """Stands in for `torch.cuda.CUDAGraph`."""

    operations: list[tuple[Any, tuple[Any, ...], dict[str, Any], Any]] = field(default_factory=list)
    replays: int = 0

    def pool(self):
        return "pool"

    def replay(self):
        self.replays += 1
        below = torch._C._AutoDispatchBelowAutograd
        with torch._C.DisableTorchFunction(), _disable_current_modes(), torch.no_grad(), below():
            for operation, args, kwargs, outputs in self.operations:
                again = _tensors(operation(*args, **kwargs))
                inputs = {_storage(leaf) for leaf in _tensors((args, kwargs))}
                for old, new in zip(_tensors(outputs), again, strict=True):
                    if _storage(old) not in inputs:
                        old.copy_(new)


class PretendedGPU(TorchFunctionMode):
    """The context in which there is a GPU; enters the mode that sees single operations too."""

    def __init__(self) -> None:
        super().__init__()
        self.gpu = MARKED
        self.waits: list[str] = []
        self.graph: Recorded | None = None
        self.graphs: list[Recorded] = []
        self.sides = [False]
        self._saved: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._makers: dict[int, Recorded] = {}
        self._operations = _Operations(self)
        self._patches = contextlib.ExitStack()

    def __enter__(self):
        self._patches.enter_context(_torch_cuda(self))
        self._operations.__enter__()
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        self._operations.__exit__(*error)
        self._patches.close()

    def has(self, tensor: torch.Tensor) -> bool:
        return _storage(tensor) in self.gpu

    def mark(self, tensors: Any) -> None:
        for leaf in _tensors(tensors):
            self.gpu[_storage(leaf)] = StorageWeakRef(leaf.untyped_storage())  # kept, so the number is not reused

    def wait(self, what: str) -> None:
        if self.graph is not None:
            raise GPUError(f"{what} in a recorded step")
        self.waits.append(what)

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        name = getattr(function, "__name__", "")
        leaves = _tensors((args, kwargs))
        on_gpu = any(map(self.has, leaves))
        if name == "__get__":
            return self._property(function, args, on_gpu=on_gpu)
        if on_gpu and name in {"numpy", "__array__", "__dlpack__"}:
            raise TypeError("can't convert cuda:0 device type tensor to numpy")
        if on_gpu and name in READS:
            self.wait(f"{name}()")
        args, kwargs, wanted = _sides_asked(self, name, args, kwargs)
        if name == "one_hot" and on_gpu:
            if len(args) + len(kwargs) < 2:
                self.wait("one_hot() without the number of classes")
            else:  # only on a CPU does it look whether the classes are in their range
                function = _one_hot
        self.sides.append(on_gpu if wanted is None else wanted)
        generator = kwargs.get("generator")
        if generator is not None and (generator.device.type == "cuda") != self.sides[-1]:
            raise GPUError(f"{name}: a generator of {generator.device} for a tensor of the other side")
        try:
            if name in {"to", "cpu", "cuda", "type"} and wanted is not None and wanted != self.has(args[0]):
                return self._sent(function, args, kwargs, to_gpu=wanted)
            tensors = function(*args, **kwargs)
        finally:
            side = self.sides.pop()
        if side and (wanted or name in FROM_DATA):
            if name in FROM_DATA:
                self.wait(f"{name}(): a constant from the CPU")
            self.mark(tensors)
        return tensors

    def _property(self, function, args, *, on_gpu):
        of = getattr(function.__self__, "__name__", "")
        if of == "device" and on_gpu:
            return CUDA
        if of in {"is_cuda", "is_cpu"}:
            return on_gpu == (of == "is_cuda")
        return function(*args)

    def _sent(self, function, args, kwargs, *, to_gpu):
        self.wait("a copy from the CPU" if to_gpu else "a copy to the CPU")
        with _disable_current_modes():
            tensor = function(*args, **kwargs) if function.__name__ == "to" else args[0]
            tensor = tensor.clone(memory_format=torch.preserve_format)
        if to_gpu:
            self.mark(tensor)
        return tensor

    @contextlib.contextmanager
    def recording(self, graph: Recorded):
        """The operations within become the graph's; what they write is put back at the end."""
        self.graph, self._saved = graph, {}
        self.graphs.append(graph)
        try:
            yield
        finally:
            self.graph = None
            with torch._C.DisableTorchFunction(), _disable_current_modes():
                for whole, before in self._saved.values():
                    whole.copy_(before)

    def operation(self, function, args, kwargs):
        """One operation of torch, below autograd."""
        name = function._schema.name.partition("::")[2]
        leaves = _tensors((args, kwargs))
        sides = [self.has(leaf) for leaf in leaves]
        side = any(sides) if leaves else self.sides[-1]
        if side and leaves:
            self._refuse(function, args, kwargs, leaves, sides)
        if side and name.startswith(ALIGNED) and any(leaf.data_ptr() % ALIGNMENT for leaf in leaves):
            raise GPUError(f"{name}: misaligned address")
        if self.graph is not None and torch.Tag.nondeterministic_seeded in function.tags:
            raise GPUError(f"{name}: random numbers in a recorded step")
        if self.graph is not None and side:
            self._save(leaves)
        output = function(*args, **kwargs)
        outputs = _tensors(output)
        if side:
            written = {_storage(leaf) for leaf, there in zip(leaves, sides, strict=True) if not there}
            self.mark([leaf for leaf in outputs if _storage(leaf) not in written])
        if self.graph is not None and side:
            new = {_storage(leaf) for leaf in outputs} - {_storage(leaf) for leaf in leaves}
            self._makers |= dict.fromkeys(new, self.graph)
            self.graph.operations.append((function, args, kwargs, output))
        return output

    def _refuse(self, function, args, kwargs, leaves, sides):
        name = function._schema.name.partition("::")[2]
        for graph in (self._makers.get(_storage(leaf), self.graph) for leaf in leaves):
            if graph is not self.graph and not (name in COPYING and graph.replays and self.graph is None):
                raise GPUError(f"{name}: a tensor that was made while a graph was recorded is used elsewhere")
        for reason in _waits(function, name, args, kwargs):
            self.wait(f"{name}{reason}")
        if all(sides):
            return
        if name in BOTH_SIDES:
            self.wait(f"{name}: a copy between CPU and GPU")
        elif any(leaf.ndim for leaf, there in zip(leaves, sides, strict=True) if not there):
            raise GPUError(f"{name}: expected all tensors to be on the same device, found cpu and cuda:0")
        elif self.graph is not None:
            raise GPUError(f"{name}: a scalar of the CPU in a recorded step keeps its value for ever")

    def _save(self, leaves):
        """Keep what an operation may write, of what was there before: not all operations declare what they write."""
        for leaf in leaves:
            if _storage(leaf) not in self._makers and _storage(leaf) not in self._saved:
                whole = torch.empty(0, dtype=torch.uint8).set_(leaf.untyped_storage())
                self._saved[_storage(leaf)] = (whole, whole.clone())


def _waits(function, name, args, kwargs):
    """Yield why an operation on tensors of the GPU waits for their values."""
    if name.startswith(("index", "_index")):
        chosen = _tensors(args[1]) if name not in {"index_select", "index_add"} else []
        if any(leaf.dtype in {torch.bool, torch.uint8} for leaf in chosen):
            yield " by a mask: the shape depends on its values"
    elif READING & set(function.tags) and kwargs.get("output_size") is None:
        yield ": Python reads values, or the shape depends on them"
    if name in CHECKING or kwargs.get("check_errors"):
        yield ": whether it has succeeded is checked on the CPU"
    if name in ONE_BY_ONE and args[0].shape[:-2].numel() > 1:
        yield " of several matrices"
    if name == "histc" and len({*args[2:4], *(kwargs.get(end, 0) for end in ("min", "max"))}) < 2:
        yield " without a range"


class _Operations(TorchDispatchMode):
    def __init__(self, gpu: PretendedGPU) -> None:
        super().__init__()
        self.pretended = gpu

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return self.pretended.operation(function, args, kwargs or {})


class _Generator(torch.Generator):
    """A generator of the CPU that says which side it is of."""

    def __new__(cls, device="cpu"):
        pretended = super().__new__(cls, "cpu")
        pretended.side = torch.device(device)
        return pretended

    def __init__(self, device="cpu"):
        pass

    @property
    def device(self):
        return self.side


def _one_hot(classes, number):
    return classes[..., None].eq(torch.arange(number)).to(torch.int64)


def _tensors(value: Any) -> list[torch.Tensor]:
    """The tensors in arguments or results; `tree_leaves` would be most of what an operation takes."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return []
    return [tensor for member in value for tensor in _tensors(member)]


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _sides_asked(gpu, name, args, kwargs):
    """The arguments without the GPU, and the side that they ask for: True, False, or None for no side."""
    wanted = None
    kwargs.pop("pin_memory", None)
    if kwargs.get("device") is not None:
        wanted = torch.device(kwargs["device"]).type == "cuda"
        if torch.device(kwargs["device"]).type != "meta":
            kwargs["device"] = "cpu"
        else:
            wanted = None
    if name == "to":
        words = list(args)
        for i, word in enumerate(words[1:], 1):
            if isinstance(word, str | torch.device):
                wanted, words[i] = torch.device(word).type == "cuda", "cpu"
            elif isinstance(word, torch.Tensor):
                wanted = gpu.has(word)
        args = tuple(words)
    if name in {"cpu", "cuda"} and args and isinstance(args[0], torch.Tensor):
        wanted = name == "cuda"
        args, kwargs = args[:1], {}
    return args, kwargs, wanted


@contextlib.contextmanager
def _torch_cuda(gpu: PretendedGPU):
    """What of `torch.cuda` the harness uses."""
    from unittest import mock

    def waiting(*names):
        return {name: lambda *_, name=name: gpu.wait(f"{name}()") for name in names}

    nothing = dict.fromkeys(("wait_stream", "wait_event", "record_event", "record", "wait"), lambda *_: None)
    stream = SimpleNamespace(**nothing, **waiting("synchronize", "query", "elapsed_time"))

    @contextlib.contextmanager
    def graph(recorded, *_):
        with gpu.recording(recorded):
            yield

    autocast = torch.autocast
    stand_ins = {
        "Stream": lambda *_, **__: stream,
        "Event": lambda *_, **__: stream,
        "current_stream": lambda *_: stream,
        "stream": lambda _: contextlib.nullcontext(),
        "CUDAGraph": Recorded,
        "is_current_stream_capturing": lambda: gpu.graph is not None,
        "graph": graph,
        **waiting("synchronize"),
        "set_device": lambda _: None,
        "device_count": lambda: 1,
        "get_device_properties": lambda _: SimpleNamespace(uuid=f"GPU-pretended-{os.getpid()}"),
        "get_device_name": lambda _: "a pretended GPU",
        "is_initialized": lambda: True,
    }
    with contextlib.ExitStack() as stack:
        for name, stand_in in stand_ins.items():
            stack.enter_context(mock.patch.object(torch.cuda, name, stand_in))
        stack.enter_context(mock.patch.object(torch, "Generator", _Generator))
        stack.enter_context(
            mock.patch.object(torch, "autocast", lambda _, *args, **kwargs: autocast("cpu", *args, **kwargs))
        )
        yield
