"""Errors of a run's device and of its memory, as Python, torch and CUDA report them.

An error counts with all that caused it, because torch, and plugins, wrap what they catch.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping

DEVICE: Mapping[int, str] = {
    4: "driver shutting down", 46: "busy or unavailable", 53: "unspecified launch failure",
    100: "no CUDA-capable device", 214: "ECC error", 216: "exclusive-thread device already in use",
    220: "NVLink error", 226: "a hardware error", 714: "hardware stack error", 719: "unspecified launch failure",
    802: "system not yet initialized", 803: "unsupported display driver", 804: "forward compatibility was attempted",
    805: "to the MPS control daemon", 806: "between the MPS server and the MPS client", 807: "MPS server is not ready",
    808: "required to create MPS client", 809: "required to support device connections",
    810: "MPS client has been terminated", 999: "unknown error",
}  # fmt: skip
"""Errors of CUDA for which the device, its driver or its MPS server is at fault: cudaError_t, and words of the text."""

CODE: Mapping[int, str] = {
    700: "illegal memory access", 702: "launch timed out", 710: "device-side assert triggered",
    715: "illegal instruction", 716: "misaligned address", 717: "global/shared address space",
    718: "invalid program counter", 721: "tensor memory not completely freed",
    **dict.fromkeys(range(900, 909), "captur"),
}  # fmt: skip
"""Errors of CUDA for which a kernel, or a recording, is at fault. After one, kernels may fail in the same process."""

_CUDA = r"cuda(?![:.])"
"""Matches the name in the texts of CUDA, and of torch and Triton about it, and not `cuda:0` or `torch.cuda`."""


def _reports(numbers: Mapping[int, str], *elsewhere: str) -> Callable[[BaseException], bool]:
    """Return a test for errors with one of these numbers, or with its words in CUDA's text, or with another text."""
    words = "|".join(map(re.escape, numbers.values()))
    text = re.compile("|".join([rf"{_CUDA}[^\n]*?(?:{words})", *elsewhere]), re.IGNORECASE)
    return lambda error: _number(error) in numbers or bool(text.search(_text(error)))


_lost = _reports(
    DEVICE, "uncorrectable (?:ECC|NVLink) error", "(?:GPU|device) is (?:lost|no longer available)",
    "fallen off the bus", "No CUDA GPUs are available", "found no NVIDIA driver",
)  # fmt: skip
_of_code = _reports(CODE)
_full = _reports({2: "out of memory"}, "DefaultCPUAllocator", r"\bCU[A-Z]+_\w*ALLOC(?:ATION)?_FAILED")
_unready = re.compile(r"\bCU[A-Z]+_STATUS_NOT_INITIALIZED").search
_of_cuda = re.compile(rf"{_CUDA}|cublas|cudnn|cusolver|cusparse|cufft", re.IGNORECASE).search


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
    return any(_number(cause) is not None or _of_cuda(_text(cause)) for cause in chain(error))


def lacks_memory(error: BaseException) -> bool:
    """Return whether an error of Python, torch or CUDA says that memory is lacking, of this machine or of a GPU.

    A library of CUDA without memory for its handle says that it is not initialized, as it does after a kernel failed.
    """
    causes = chain(error)
    said = any(isinstance(cause, MemoryError) or _is_full(cause) for cause in causes)
    return said or (any(_unready(_text(cause)) for cause in causes) and failed_kernel() is None)


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
    return _full(error) or type(error).__name__ == "OutOfMemoryError"


def _number(error: BaseException) -> int | None:
    """Return the cudaError_t of an error of torch's type for it, 0 if it has none; None for another type."""
    kind = getattr(sys.modules.get("torch"), "AcceleratorError", ())
    return getattr(error, "error_code", 0) if isinstance(error, kind) else None


def _text(error: BaseException) -> str:
    """Return the text of an error of torch or CUDA; an error of a plugin may not even have one."""
    return " ".join(text for text in error.args if isinstance(text, str)) if isinstance(error, RuntimeError) else ""
