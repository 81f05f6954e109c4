"""Errors of CUDA, in torch's words: which device is retired, which run failed, which lacked memory, in every phase."""

from dataclasses import replace

import pytest
import torch
from pretended_gpu import PretendedGPU

import harness.engine.stepping.update
from harness.contracts.registry import registry
from harness.engine.loop import Loop
from harness.engine.run_state import RunState
from harness.engine.stepping.making import UncompiledError, making
from harness.engine.stepping.update import Update
from harness.runs import local
from harness.runs.child import Stop, last_message
from harness.runs.plan import RunRequest, plan
from harness.runs.session import Session
from harness.runs.worker import rerun, run
from harness.system.device_errors import lacks_memory, lost_device, of_cuda, unusable
from harness.system.errors import PluginError
from plugins.samplers.sgld import SGLD
from tasks.synthetic.mixture5 import Mixture5

HINTS = """
Search for `{name}' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more information.
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.
For debugging consider passing CUDA_LAUNCH_BLOCKING=1
Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.
"""
"""What torch adds to each error of the runtime: it names assertions on the device, whatever the error is."""

RUNTIME = {
    "device": {
        4: "driver shutting down",
        46: "CUDA-capable device(s) is/are busy or unavailable",
        53: "unspecified launch failure in prior launch",
        100: "no CUDA-capable device is detected",
        214: "uncorrectable ECC error encountered",
        216: "exclusive-thread device already in use by a different thread",
        220: "uncorrectable NVLink error detected during the execution",
        226: "Invalid access of peer GPU memory over nvlink or a hardware error",
        714: "hardware stack error",
        719: "unspecified launch failure",
        802: "system not yet initialized",
        803: "system has unsupported display driver / cuda driver combination",
        804: "forward compatibility was attempted on non supported HW",
        805: "MPS client failed to connect to the MPS control daemon or the MPS server",
        806: "the remote procedural call between the MPS server and the MPS client failed",
        807: "MPS server is not ready to accept new MPS client requests",
        808: "the hardware resources required to create MPS client have been exhausted",
        809: "the hardware resources required to support device connections have been exhausted",
        810: "the MPS client has been terminated by the server",
        999: "unknown error",
    },
    "memory": {2: "out of memory"},
    "code": {
        1: "invalid argument",
        9: "invalid configuration argument",
        98: "invalid device function",
        101: "invalid device ordinal",
        209: "no kernel image is available for execution on the device",
        700: "an illegal memory access was encountered",
        701: "too many resources requested for launch",
        702: "the launch timed out and was terminated",
        710: "device-side assert triggered",
        715: "an illegal instruction was encountered",
        716: "misaligned address",
        717: "operation not supported on global/shared address space",
        718: "invalid program counter",
        720: "too many blocks in cooperative launch",
        721: "tensor memory not completely freed",
        801: "operation not supported",
        900: "operation not permitted when stream is capturing",
        901: "operation failed due to a previous error during capture",
        906: "operation would make the legacy stream depend on a capturing blocking stream",
    },
}
"""cudaGetErrorString of CUDA 13."""
OTHERS = [
    ("device", RuntimeError("CUDA error: GPU is lost")),
    ("device", RuntimeError("Triton Error [CUDA]: uncorrectable ECC error encountered")),
    ("device", RuntimeError("CUDA driver error: unspecified launch failure")),
    ("device", RuntimeError("No CUDA GPUs are available")),
    (
        "device",
        RuntimeError(
            "Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling "
            "NumCudaDevices() that might have already set an error? Error 802: system not yet initialized"
        ),
    ),
    (
        "device",
        RuntimeError(
            "CUDA unknown error - this may be due to an incorrectly set up environment, e.g. changing env variable "
            "CUDA_VISIBLE_DEVICES after program start. Setting the available devices to be zero."
        ),
    ),
    ("memory", torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")),
    ("memory", RuntimeError("CUDA driver error: out of memory")),
    ("memory", RuntimeError("Triton Error [CUDA]: out of memory")),
    ("memory", RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")),
    ("memory", RuntimeError("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`")),
    ("memory", RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED")),
    ("memory", RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED")),
    ("memory", RuntimeError("cuDNN error: CUDNN_STATUS_NOT_INITIALIZED")),
    ("memory", RuntimeError("cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling `cusolverDnCreate(handle)`")),
    ("memory", RuntimeError("cuFFT error: CUFFT_ALLOC_FAILED")),
    (
        "memory",
        RuntimeError("[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory"),
    ),
    ("memory", MemoryError()),
    ("code", RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm(handle, opa, opb)`")),
    ("code", RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED")),
    ("code", RuntimeError("Triton Error [CUDA]: an illegal memory access was encountered")),
    ("code", RuntimeError("Expected all tensors to be on the same device, but found cuda:0 and cpu! unknown error")),
    ("code", RuntimeError("the data set has an unknown error")),
    ("code", RuntimeError("out of memory slots of the sampler")),
    ("code", ValueError("CUDA error: out of memory")),
    ("code", RuntimeError()),
    ("code", RuntimeError(7, b"CUDA error: out of memory")),
]


def of_runtime(number, text):
    error = torch.AcceleratorError(f"CUDA error: {text}{HINTS}")
    error.error_code = number
    return error


def verdict(error):
    return "device" if lost_device(error) else "memory" if lacks_memory(error) else "code"


TABLE = [
    *((kind, of_runtime(number, text)) for kind, texts in RUNTIME.items() for number, text in texts.items()),
    *((kind, RuntimeError(f"CUDA error: {text}")) for kind, texts in RUNTIME.items() for text in texts.values()),
    *OTHERS,
]


def wrapped(error, how):
    """The error of a plugin, or of torch's compiler, that caught this one."""
    outer = ValueError("the step failed")
    if how == "cause":
        outer.__cause__ = error
    elif how == "context":
        outer.__context__ = error
    elif how == "inner":
        outer.inner_exception = error
    elif how == "hidden":
        outer.__context__, outer.__suppress_context__ = error, True
    return outer


@pytest.mark.parametrize("how", ["", "cause", "context", "inner"])
def test_each_error_is_of_the_device_of_memory_or_of_the_code(how):
    for kind, error in TABLE:
        said = wrapped(error, how) if how else error
        assert verdict(said) == kind, repr(said)
        with pytest.raises(Exception) as raised, making(SGLD()):  # noqa: PT011 - any error
            raise said
        assert isinstance(raised.value, UncompiledError) == (kind == "code")
        assert verdict(raised.value) == kind, repr(said)


def test_a_hidden_error_does_not_count():
    assert {verdict(wrapped(error, "hidden")) for _, error in TABLE} == {"code"}


GPU = "cuda:0"
DEAD = RuntimeError("CUDA error: unspecified launch failure")


class Failing:
    """A worker on the pretended GPU, with an error in one phase of its runs, and what became of them."""

    def __init__(self, ledger, monkeypatch):
        self.ledger, self.monkeypatch, self.told = ledger, monkeypatch, []
        self.gpu = PretendedGPU()
        monkeypatch.setattr(torch.backends.cudnn, "benchmark", torch.backends.cudnn.benchmark)  # given back
        monkeypatch.setattr(harness.engine.stepping.update, "_compile", lambda update, _: update)
        monkeypatch.setattr(harness.engine.stepping.update, "Opaque", lambda potential: potential)
        monkeypatch.setattr("harness.engine.stepping.execution_mode.obstacle", lambda *_: None)
        monkeypatch.setattr("harness.engine.stepping.graph.PART", 2, raising=False)  # the steps of a graph: a few
        given = {"run.compile": "compiled", "run.thin": 1}
        asked = RunRequest(["sgld"], ["mixture5"], seeds=[0, 1], chains=2, budget="steps=8", given=given, device="cuda")
        (job,) = local.jobs(plan(registry(), asked, ledger), ledger.root, (), ())
        self.both = replace(job, **local.slots([GPU], None)[0]._asdict())
        self.one = replace(self.both, specs=job.specs[:1])
        self.advancing = []
        ledger.prepare()

    def patched(self, where, name, when, error):
        """Let a function fail under a condition."""
        function = getattr(where, name)

        def failing(*arguments, **named):
            if when():
                raise error
            return function(*arguments, **named)

        self.monkeypatch.setattr(where, name, failing)

    def in_phase(self, phase, error):
        if phase == "set-up":
            self.patched(Mixture5, "build", lambda: True, error)
        elif phase == "making":
            self.patched(harness.engine.stepping.update, "_compile", lambda: True, error)
        elif phase == "capture":
            self.patched(Update, "_step", lambda: self.gpu.graph is not None, error)
        elif phase == "step":
            self.patched(Session, "advance", self.advance, error)
            self.patched(Update, "_step", self.once, error)
        elif phase == "observation":
            self.patched(RunState, "take", lambda: True, error)
        elif phase == "checkpoint":
            self.monkeypatch.setenv("BENCH_CHECKPOINT_SECONDS", "0.000001")
            self.patched(Loop, "checkpoint", lambda: True, error)
        elif phase == "metrics":
            opened = Session.__init__

            def opening(session, *arguments):
                opened(session, *arguments)
                self.patched(session.loop.runs[0].observer, "outcome", lambda: True, error)

            self.monkeypatch.setattr(Session, "__init__", opening)

    def advance(self):
        self.advancing.append(0)
        return False

    def once(self):
        """Whether this is the first step of all runs."""
        return self.advancing == [0] and not self.advancing.append(1)

    def dead(self, error):
        """From now on no kernel works."""
        self.patched(torch.cuda, "synchronize", lambda: True, error)

    def run(self, job):
        """Do a job as a worker, and return the error that ended the worker, or None."""
        try:
            run(job, lambda *message: self.told.append(message), Stop())
        except Exception as error:  # noqa: BLE001 - as a child reports it
            return error
        return None

    def standing(self, spec):
        return self.ledger.standing(spec.key)


@pytest.fixture
def failing(ledger, monkeypatch):
    worker = Failing(ledger, monkeypatch)
    with worker.gpu:
        yield worker


PHASES = ("set-up", "making", "capture", "step", "observation", "checkpoint", "metrics")
BEFORE = {"set-up": PluginError, "making": UncompiledError}
"""Phases before the first step, in which a run that fails has no result yet, and the error of a plugin there."""


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize(
    ("kind", "error", "dead"),
    [
        ("device", of_runtime(214, RUNTIME["device"][214]), None),
        ("device", wrapped(of_runtime(46, RUNTIME["device"][46]), "context"), None),
        ("device", RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"), DEAD),
        ("memory", of_runtime(2, RUNTIME["memory"][2]), None),
        ("code", of_runtime(710, RUNTIME["code"][710]), of_runtime(710, RUNTIME["code"][710])),
        ("code", RuntimeError("cuDNN error: CUDNN_STATUS_BAD_PARAM"), None),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_an_error_means_does_not_depend_on_the_phase(failing, kind, error, dead, phase):
    failing.in_phase(phase, error)
    if dead is not None:
        failing.dead(dead)
    job = failing.one
    raised, standing = failing.run(job), failing.standing(job.specs[0])
    if kind == "device":
        message, payload = last_message(raised)
        assert (message, payload["exit_code"]) == ("device lost", 1)
        assert not standing.failed
        if phase not in BEFORE:
            assert standing.status == "device_lost"
    elif phase not in BEFORE:
        assert raised is None
        assert standing.status == {"memory": "out_of_memory", "code": "error"}[kind]
    else:
        assert standing.status == "new"
        message, payload = last_message(raised)
        assert message == "failed"
        if kind == "memory":
            assert payload["exit_code"] == 1
            assert payload["message"].startswith("not enough memory")
        else:
            assert isinstance(raised, BEFORE[phase])
            assert payload["exit_code"] == raised.exit_code > 1


@pytest.mark.parametrize("number", [700, 710])
def test_a_context_without_working_kernels_is_not_used_again(failing, monkeypatch, number):
    """The run that failed is the code's, those that were not begun are none's, and the worker ends."""
    error = of_runtime(number, RUNTIME["code"][number])
    failing.in_phase("step", error)
    job = failing.both
    opened, begun = Session.open_all, []

    def one_by_one(ledger, specs, *more):
        for spec in specs:
            begun.append(spec.seed)
            yield from opened(ledger, [spec], *more)

    monkeypatch.setattr(Session, "open_all", one_by_one)
    failing.dead(error)
    assert failing.run(job) is None
    assert [failing.standing(spec).status for spec in job.specs] == ["error", "new"]
    assert begun == [0]
    assert unusable(error)


def test_after_an_error_that_leaves_the_gpu_usable_the_worker_goes_on(failing, monkeypatch):
    failing.in_phase("step", of_runtime(9, RUNTIME["code"][9]))
    job = failing.both
    opened = Session.open_all
    monkeypatch.setattr(
        Session, "open_all", lambda ledger, specs, *more: (s for one in specs for s in opened(ledger, [one], *more))
    )
    assert failing.run(job) is None
    assert [failing.standing(spec).status for spec in job.specs] == ["error", "done"]


def test_metrics_that_poison_the_context_are_the_fault_of_one_run(failing):
    error = of_runtime(700, RUNTIME["code"][700])
    failing.in_phase("metrics", error)
    failing.dead(error)
    job = failing.both
    assert failing.run(job) is None
    assert [failing.standing(spec).status for spec in job.specs] == ["error", "orphaned"]


def test_a_step_that_cannot_be_recorded_is_not_the_devices_fault(failing):
    failing.in_phase("capture", of_runtime(900, RUNTIME["code"][900]))
    failing.dead(of_runtime(901, RUNTIME["code"][901]))
    assert failing.run(failing.one) is None
    standing = failing.standing(failing.one.specs[0])
    assert standing.status == "error"
    assert "run.compile=plain" in standing.reason


def test_a_library_that_is_not_initialized_lacks_memory_only_if_kernels_work(failing):
    error = RuntimeError("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`")
    assert verdict(error) == "memory"
    assert not unusable(error)
    failing.dead(of_runtime(710, RUNTIME["code"][710]))
    assert verdict(error) == "code"
    assert unusable(error)


def test_a_gpu_without_free_memory_is_not_lost(failing):
    failing.dead(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 MiB."))
    error = RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED")
    assert verdict(error) == "code"
    assert not unusable(error)


def test_a_repeated_run_does_not_fail_for_its_device(failing, tmp_path):
    failing.in_phase("step", of_runtime(214, RUNTIME["device"][214]))
    with pytest.raises(torch.AcceleratorError, match="ECC"):
        rerun(failing.one, tmp_path / "again", print)


def test_errors_in_a_circle_end():
    first, second = RuntimeError("a"), RuntimeError("CUDA error: uncorrectable ECC error encountered")
    first.__cause__, second.__cause__ = second, first
    assert lost_device(first) is second
    assert of_cuda(first)
