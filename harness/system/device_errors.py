"""Errors of a run's device and of its memory, as Python, torch and CUDA report them.

An error counts with all that caused it, because torch, and plugins, wrap what they catch.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

_CUDA = r"cuda(?![:.])"
"""Matches the name in the texts of CUDA, and of torch and Triton about it, and not `cuda:0` or `torch.cuda`."""


def _says(cuda: str, other: str = "(?!)") -> Callable[[BaseException], object]:
    """Return a test for errors with these words in a text of CUDA, or with others in any text of torch."""
    search = re.compile(rf"{_CUDA}[^\n]*?(?:{cuda})|{other}", re.IGNORECASE).search
    return lambda error: search(_text(error))


_lost = _says(
    "driver shutting down|busy or unavailable|no longer available|unspecified launch failure|no CUDA-capable device|"
    "ECC error|NVLink error|hardware error|hardware stack error|in use by a different thread|MPS (?:client|server)|"
    "support device connections|system not yet initialized|unsupported display driver|forward compatibility was|"
    "unknown error",
    "uncorrectable (?:ECC|NVLink) error|GPU is lost|fallen off the bus|No CUDA GPUs are|found no NVIDIA driver",
)
"""Tells errors for which the device, its driver or its MPS server is at fault."""
_of_code = _says(
    "illegal memory access|launch timed out|device-side assert triggered|illegal instruction|misaligned address|"
    "global/shared address space|invalid program counter|tensor memory not completely freed|captur"
)
"""Tells errors for which a kernel or a recording is at fault. After one, kernels may fail in the same process."""
_full = _says("out of memory", r"DefaultCPUAllocator|\bCU[A-Z]+_\w*ALLOC(?:ATION)?_FAILED")
_unready = _says("(?!)", r"\bCU[A-Z]+_STATUS_NOT_INITIALIZED")
_of_cuda = _says("", "cublas|cudnn|cusolver|cusparse|cufft")


def chain(error: BaseException) -> list[BaseException]:
    """Return an error and what caused it, the cause last, with the inner errors of torch's compiler."""
    errors: list[BaseException] = []
    following: object = error
    while isinstance(following, BaseException) and following not in errors:
        errors.append(following)
        context = None if following.__suppress_context__ else following.__context__
        following = following.__cause__ or context or getattr(following, "inner_exception", None)
    return errors


def of_cuda(error: BaseException) -> bool:
    """Return whether an error of CUDA or its libraries is among its causes."""
    kind = getattr(sys.modules.get("torch"), "AcceleratorError", ())
    return any(isinstance(cause, kind) or _of_cuda(cause) for cause in chain(error))


def lacks_memory(error: BaseException) -> bool:
    """Return whether an error of Python, torch or CUDA says that memory is lacking, of this machine or of a GPU.

    A library of CUDA without memory for its handle says that it is not initialized, as it does after a kernel failed.
    """
    causes = chain(error)
    said = any(isinstance(cause, MemoryError) or _is_full(cause) for cause in causes)
    return said or (any(map(_unready, causes)) and failed_kernel() is None)


def lost_device(error: BaseException) -> BaseException | None:
    """Return the error that says that the device is lost, or None.

    CUDA says it, or no kernel works after an error of CUDA that is no fault of a kernel or a recording.
    """
    causes = chain(error)
    said = next(filter(_lost, causes), None)
    if said or not of_cuda(error) or any(map(_of_code, causes)):
        return said
    failed = failed_kernel()
    return None if failed is None or _of_code(failed) else failed


def unusable(error: BaseException) -> bool:
    """Return whether no kernel works in this process after an error."""
    return of_cuda(error) and failed_kernel() is not None


def failed_kernel() -> Exception | None:
    """Execute a kernel on the GPU of this process, if it uses one. Return its error, unless memory is lacking."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    try:
        torch.zeros(1, device="cuda").add_(1)
        torch.cuda.synchronize()
    except Exception as error:  # noqa: BLE001 - any error of a driver
        return None if _is_full(error) else error
    return None


def _is_full(error: BaseException) -> bool:
    return bool(_full(error)) or type(error).__name__ == "OutOfMemoryError"


def _text(error: BaseException) -> str:
    """Return the text of an error of torch or CUDA; an error of a plugin may not even have one."""
    return " ".join(text for text in error.args if isinstance(text, str)) if isinstance(error, RuntimeError) else ""
