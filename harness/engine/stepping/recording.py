"""A step's tensor operations, which are recorded while the step is executed and then written as code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decomposition_table
from torch.utils import _pytree as tree
from torch.utils._python_dispatch import TorchDispatchMode

from harness.engine.stepping.lanes import Breach, Unsupported, Writer
from harness.engine.stepping.operations import KNOWN, REWRITTEN, SHAPED, VIEWS

Node = tuple[Any, Any, Any, list[Tensor]]
"""An operation, its arguments, its named arguments, and its results."""


class Recorder(TorchDispatchMode):
    """A mode that executes operations and records them, in terms of those that can be written."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes: list[Node] = []
        self._changed: dict[int, Tensor] = {}
        self._sharing: Counter[int] = Counter()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # otherwise torch imports dynamo, which takes longer than everything else

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = kwargs or {}, func.overloadpacket.__name__
        if func._schema.is_mutable:  # noqa: SLF001
            return self._change(func, args, kwargs)
        with self:
            if name not in KNOWN and (name in REWRITTEN or func in decomposition_table):
                return (REWRITTEN.get(name) or decomposition_table[func])(*args, **kwargs)
            output = func.decompose(*args, **kwargs)
        if output is not NotImplemented:
            return output
        if func is torch.ops.aten._local_scalar_dense.default:  # noqa: SLF001
            raise Breach("a number is taken out of a tensor")
        output = func(*args, **kwargs)
        outs = list(output) if isinstance(output, (tuple, list)) else [output]
        self._sharing.update(out.untyped_storage().data_ptr() for out in outs)
        self.nodes.append((func, *tree.tree_map(self.now, (args, kwargs)), outs))
        return output

    def now(self, leaf: Any) -> Any:
        """Return the new value of a tensor that was changed in place; return anything else as it is."""
        return self._changed.get(id(leaf), leaf)

    def _change(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Record x += y as x + y, if x was made in this step and no other tensor shares its memory."""
        target, name = args[0], func.overloadpacket.__name__.removesuffix("_")
        if not hasattr(torch.ops.aten, name) or self._sharing[target.untyped_storage().data_ptr()] != 1:
            raise Unsupported(f"{func}")
        with self:
            changed = getattr(torch.ops.aten, name)(*args, **kwargs).to(target.dtype)
        self._changed[id(target)] = changed
        return func(*args, **kwargs)


@contextmanager
def said_to_compile() -> Iterator[None]:
    """Make `torch.compiler.is_compiling()` return True, as it does in steps that torch compiles."""
    was = torch.compiler._is_compiling_flag  # noqa: SLF001
    torch.compiler._is_compiling_flag = True  # type: ignore[attr-defined,unused-ignore] # noqa: SLF001
    try:
        yield
    finally:
        torch.compiler._is_compiling_flag = was  # type: ignore[attr-defined,unused-ignore] # noqa: SLF001


def write(w: Writer, nodes: Sequence[Node], results: Sequence[Tensor]) -> None:
    """Write the recorded operations that `results` need, in order."""
    w.uses.update(map(id, results))
    needed = []
    for node in reversed(nodes):
        func, args, kwargs, outs = node
        uses = sum(w.uses[id(out)] for out in outs)
        if uses:
            needed.append(node)
            if func.overloadpacket.__name__ in SHAPED:
                continue
            inputs = [leaf for leaf in tree.tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
            for leaf in inputs:
                w.uses[id(leaf)] += uses if func.overloadpacket.__name__ in VIEWS else 1
    for func, args, kwargs, outs in reversed(needed):
        name = func.overloadpacket.__name__
        if name not in KNOWN:
            raise Unsupported(f"{func}")
        written = KNOWN[name](w, outs, *args, **kwargs)
        for out, output in zip(outs, written if isinstance(written, list) else [written], strict=True):
            value = w.cast(output, out.dtype)
            if value.shape != tuple(out.shape):
                raise Unsupported(f"{func} of shape {value.shape} and not {tuple(out.shape)}")
            again = w.uses[id(out)] > 1 and name not in VIEWS
            w.values[id(out)] = w.stored(value) if again else value
