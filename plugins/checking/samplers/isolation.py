"""Law 16: a step uses its arguments and nothing else of the process, as far as Python cannot prevent that itself."""

from __future__ import annotations

import gc
import os
import random
import re
import signal
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from types import CodeType, FrameType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from harness import Noise, Potential, Sampler, Trajectory, linear
from harness.tasks import Problem, Task
from plugins.checking.gaussian import GaussianTask
from plugins.checking.law import Broken, Law, fingerprint, path_of, same, streams, trajectory, varying

CHAINS = 2
STEPS = 6
OWN = frozenset({"harness", "torch", "numpy", "scipy", *sys.stdlib_module_names})
"""Packages that are not part of a sampler."""

SECRETS = frozenset({"tasks", "reports"})
"""Packages that contain the tasks and what is known about them."""

OUTSIDE = (
    (r"(os|posix)\.(getenv|getenvb)|_Environ\..*", "the environment"),
    (r"(time|datetime)\..*|(datetime|date)\.(now|utcnow|today)", "the clock"),
    (r"(os|posix)\.(urandom|getrandom)|_random\..*|secrets\..*", "random numbers of the system"),
    (r"(os|posix)\.(getpid|getppid|uname|getcwd|stat|lstat|listdir|scandir|open|access)|socket\..*", "the machine"),
    (r"_thread\.start.*", "a thread"),
    (r"gc\..*|sys\.(_getframe|_current_frames|_getframemodulename)|inspect\..*", "objects of the harness"),
)
"""Functions by module and name, and what they give access to."""

EVENTS = {
    "open": "a file", "socket": "the network", "subprocess": "another process", "os": "the operating system",
    "gc": "objects of the harness", "sys._getframe": "the frames of its callers", "ctypes": "memory by its address",
    "glob": "files", "shutil": "files", "pathlib": "files", "tempfile": "files", "urllib": "the network",
    "sqlite3": "a database", "_thread": "a thread", "pty": "another process",
}  # fmt: skip
"""Audit events of Python by their first part, and what they give access to."""

NAMES = frozenset(
    {
        "__closure__", "cell_contents", "__globals__", "__subclasses__", "f_back", "f_locals", "f_globals", "tb_frame",
        "gi_frame", "_getframe", "get_objects", "get_referrers", "get_referents", "currentframe", "environ", "getenv",
    }
)  # fmt: skip
"""Names by which code reaches objects that are not its arguments; the step of a sampler needs none of them."""

PAIRS = frozenset({("sys", "modules"), ("sys", "argv"), ("sys", "_current_frames")})


def check(sampler: Sampler) -> None:
    """Check the names in its code, the functions it calls, and what a run leaves behind for the next one."""
    _names(sampler)
    with _restored() as settings:
        _attributes(sampler)
        with _watched(sampler) as reached:
            first = _run(sampler, 0)
        changed = [name for name, value in _settings().items() if value != settings[name]]
    if reached:
        raise Broken(f"{reached[0]}; a sampler sees what `init`, `step` and its other methods are given, and no more")
    if changed:
        raise Broken(f"a run changes {changed[0]}, a setting of the whole process")
    _leaves_nothing(sampler, first)


def _run(sampler: Sampler, seed: int, dim: int = 3, share: float = 0.4) -> Tensor:
    task = GaussianTask(variance=0.5, curvatures=tuple(0.5 * (1 + i) for i in range(dim)))
    path: Trajectory = trajectory(varying(sampler, task, STEPS, share=share), 1.0, burn_in=STEPS // 2)
    return path_of(sampler, task, path, CHAINS, seed)


def _modules(sampler: Sampler) -> list[types.ModuleType]:
    """Return the modules that define the sampler's classes, without those of the harness."""
    names = dict.fromkeys(cls.__module__ for cls in _classes(sampler))
    return [sys.modules[name] for name in names if name in sys.modules]


def _classes(sampler: Sampler) -> list[type]:
    return [cls for cls in type(sampler).__mro__ if cls.__module__.partition(".")[0] not in OWN]


# The names in the code.


def _names(sampler: Sampler) -> None:
    for cls in _classes(sampler):
        for function in vars(cls).values():
            for code, names in _codes(function, sys.modules.get(cls.__module__)):
                bad = names & NAMES or {".".join(pair) for pair in PAIRS if names >= set(pair)}
                bad |= {name for name in names if name.partition(".")[0] in SECRETS}
                known = vars(sys.modules.get(cls.__module__, sys))
                bad |= {name for name in names if name in known and _is_of_a_task(known[name])}
                if bad:
                    raise Broken(
                        f"{code.co_qualname} ({_location(code)}) names {', '.join(sorted(bad))}: they lead to "
                        "objects that a sampler must not use"
                    )


def _codes(function: Any, module: types.ModuleType | None) -> Iterator[tuple[CodeType, set[str]]]:
    """Yield the code of a function, of functions defined in it, and of the functions of its module that it names."""
    function = getattr(function, "__func__", getattr(function, "fget", function))
    seen: set[CodeType] = set()
    waiting = [function.__code__] if isinstance(function, types.FunctionType) else []
    while waiting:
        code = waiting.pop()
        if code in seen:
            continue
        seen.add(code)
        yield code, {*code.co_names, *code.co_freevars}
        waiting += [const for const in code.co_consts if isinstance(const, types.CodeType)]
        named = (getattr(module, name, None) for name in code.co_names)
        waiting += [
            other.__code__
            for other in named
            if isinstance(other, types.FunctionType) and module is not None and other.__module__ == module.__name__
        ]


def _location(code: CodeType, line: int = 0) -> str:
    return f"{os.path.relpath(code.co_filename)}:{line or code.co_firstlineno}"


def _is_of_a_task(value: Any) -> bool:
    """Return whether a value is a task, a problem, or comes from a module of tasks."""
    kind = value if isinstance(value, type) else type(value)
    module = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
    return issubclass(kind, Task | Problem) or str(module).partition(".")[0] in SECRETS


class _Contract:
    """A proxy that passes on what a contract offers, and records every other attribute that is requested."""

    def __init__(self, what: str, wrapped: object, offered: frozenset[str], asked: list[str]) -> None:
        self.__what, self.__wrapped, self.__offered, self.__asked = what, wrapped, offered, asked

    def __getattr__(self, name: str) -> Any:
        if name not in self.__offered:
            self.__asked.append(f"`{name}` of `{self.__what}`")
        return getattr(self.__wrapped, name)


def _offered(contract: type) -> frozenset[str]:
    names = {*vars(contract), *contract.__annotations__}
    return frozenset(name for name in names if not name.startswith("_"))


def _attributes(sampler: Sampler) -> None:
    """Check that a step uses only what the contracts of potential and noise offer."""
    task = GaussianTask()
    theta, asked = task.build(streams(CHAINS), "cpu").initial(), list[str]()
    h, T = (torch.tensor(value, dtype=torch.float64) for value in (float(varying(sampler, task, 1)[0]), 1.0))
    exact = linear.QuadraticPotential(torch.tensor(task.curvatures, dtype=torch.float64))
    potential: Any = _Contract("potential", exact, _offered(Potential), asked)
    noise: Any = _Contract("noise", linear.ScriptedNoise(), _offered(Noise), asked)
    with torch.no_grad():
        state = sampler.init(theta, potential, h, T, noise)
        sampler.step(theta, dict(state), potential, h, T, noise)
    if asked:
        raise Broken(f"the sampler uses {', '.join(sorted(set(asked)))}, which is not part of its interface")


# The calls of the code.


@contextmanager
def _watched(sampler: Sampler) -> Iterator[list[str]]:
    """Yield a list, and add to it what the sampler's own code accesses while the block runs."""
    reached: list[str] = []
    modules = frozenset(module.__name__ for module in _modules(sampler))
    before, collecting = sys.getprofile(), gc.isenabled()
    gc.disable()  # a collection runs callbacks of other code, in whichever frame triggers it
    _hook()

    def profile(frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call":
            name = f"{getattr(called, '__module__', None) or _owner(called)}.{getattr(called, '__name__', '')}"
            what = _access_of(name)
        elif event == "call" and frame.f_back is not None:
            what, name = _access_by_call(frame)
        else:
            return
        caller = _frame_of_sampler(frame if event == "c_call" else frame.f_back, modules) if what else None
        if caller is not None:
            reached.append(f"{_location(caller.f_code, caller.f_lineno)} asks for {what} ({name})")

    _WATCHES.append((modules, reached))
    sys.setprofile(profile)
    try:
        yield reached
    finally:
        sys.setprofile(before)
        _WATCHES.pop()
        if collecting:
            gc.enable()


def _owner(called: Any) -> str:
    """Return the module or the type that a built-in function belongs to."""
    of = getattr(called, "__self__", None)
    return of.__name__ if isinstance(of, types.ModuleType | type) else type(of).__name__


@cache
def _access_of(name: str) -> str:
    return next((what for pattern, what in OUTSIDE if re.fullmatch(pattern, name)), "")


def _access_by_call(frame: FrameType) -> tuple[str, str]:
    """Return what the Python function of a frame gives access to, and its name."""
    package = str(frame.f_globals.get("__name__", ""))
    name = frame.f_code.co_qualname
    if package.partition(".")[0] in SECRETS:
        return "a task", f"{package}.{name}"
    if isinstance(frame.f_locals.get("self"), Task | Problem):
        return "a task", name
    return _access_of(f"{package}.{name}") or _access_of(name), f"{package}.{name}"


_WATCHES: list[tuple[frozenset[str], list[str]]] = []
"""Who is notified of audit events: the modules of a sampler, and the list of what they access."""


@cache
def _hook() -> None:
    """Install the audit hook. Hooks cannot be removed: there is one, which does nothing unless a run is watched."""

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if not _WATCHES:
            return
        modules, reached = _WATCHES[-1]
        root = event.partition(".")[0]
        what = EVENTS.get(event) or EVENTS.get(root)
        if not what:
            return
        watches, _WATCHES[:] = list(_WATCHES), []  # inspecting the frames is an event, too
        try:
            caller = _frame_of_sampler(sys._getframe(1), modules)  # noqa: SLF001 - the only way to find the caller
            if caller is not None:
                detail = f" {arguments[0]!r:.60}" if arguments and isinstance(arguments[0], str | bytes) else ""
                reached.append(f"{_location(caller.f_code, caller.f_lineno)} reaches for {what} ({event}{detail})")
        finally:
            _WATCHES[:] = watches

    sys.addaudithook(audit)


def _frame_of_sampler(frame: FrameType | None, modules: frozenset[str]) -> FrameType | None:
    """Return the frame of the sampler's code that caused an event, or None if an import or torch is in between."""
    importing = False
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name in modules:
            return None if importing else frame
        importing |= name.startswith("importlib.")
        if name.partition(".")[0] in ("torch", "harness") or name.startswith("plugins.checking."):
            return None
        frame = frame.f_back
    return None


# What a run leaves behind.


def _leaves_nothing(sampler: Sampler, first: Tensor) -> None:
    before = _memory(sampler)
    _run(sampler, 1, dim=4, share=0.1)
    for name, value in _memory(sampler).items():
        if before.get(name) != value:
            raise Broken(f"a run leaves something behind in {name}, where the next run would find it")
    if not same(_run(sampler, 0), first):
        raise Broken("a run differs after a run on another target, with another seed, in the same process")


def _memory(sampler: Sampler) -> dict[str, str]:
    """Return digests of what the classes and modules of a sampler hold, by name."""
    holders: list[tuple[str, Mapping[str, Any]]] = [(cls.__qualname__, vars(cls)) for cls in _classes(sampler)]
    holders += [(module.__name__, vars(module)) for module in _modules(sampler)]
    return {
        f"{holder}.{name}": _digest(value)
        for holder, values in holders
        for name, value in values.items()
        if not name.startswith("__")
    }


LEAVES: tuple[tuple[type, Callable[[Any], str]], ...] = (
    (torch.Tensor, lambda value: fingerprint([value])),
    (np.ndarray, lambda value: str(hash(value.tobytes()))),
    (torch.Generator, lambda value: fingerprint([value.get_state()])),
    (np.random.Generator, lambda value: str(value.bit_generator.state)),
    *((kind, repr) for kind in (bool, int, float, complex, str, bytes, type(None))),
)


def _digest(value: Any, depth: int = 4) -> str:
    """Return a text that changes whenever the value does, as far as that can be detected."""
    for kind, digest in LEAVES:
        if isinstance(value, kind):
            return digest(value)
    if depth and isinstance(value, Mapping):
        return str([(_digest(k, depth - 1), _digest(v, depth - 1)) for k, v in value.items()])
    if depth and isinstance(value, list | tuple | set | frozenset):
        return str([_digest(item, depth - 1) for item in value])
    if depth and not isinstance(value, type | types.ModuleType | types.FunctionType) and hasattr(value, "__dict__"):
        return f"{type(value).__name__} {id(value)} {_digest(vars(value), depth - 1)}"
    return f"{type(value).__name__} {id(value)}"


SETTINGS: dict[str, Callable[[], Any]] = {
    "torch's default dtype": torch.get_default_dtype,
    "torch's default device": torch.get_default_device,
    "torch's number of threads": torch.get_num_threads,
    "torch's precision of matrix products": torch.get_float32_matmul_precision,
    "torch's deterministic algorithms": torch.are_deterministic_algorithms_enabled,
    "torch's gradient mode": torch.is_grad_enabled,
    "torch's global random numbers": lambda: fingerprint([torch.get_rng_state()]),
    "numpy's global random numbers": lambda: str(np.random.get_state(legacy=False)),  # noqa: NPY002 - on purpose
    "Python's global random numbers": lambda: hash(random.getstate()),
    "numpy's handling of errors": np.geterr,
    "the environment": lambda: dict(os.environ),
    "the working directory": os.getcwd,
    "sys.path": lambda: list(sys.path),
    "the filters of warnings": lambda: list(map(str, warnings.filters)),
    "the garbage collector": gc.isenabled,
    "the limit of recursion": sys.getrecursionlimit,
    "a signal handler": lambda: [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)],
}


def _settings() -> dict[str, Any]:
    return {name: ask() for name, ask in SETTINGS.items()}


@contextmanager
def _restored() -> Iterator[dict[str, Any]]:
    """Yield the settings; at the end restore those that matter to other laws."""
    settings = _settings()
    try:
        yield settings
    finally:
        torch.set_default_dtype(settings["torch's default dtype"])
        torch.set_num_threads(settings["torch's number of threads"])
        np.seterr(**settings["numpy's handling of errors"])
        os.environ.clear()
        os.environ.update(settings["the environment"])


LAW = Law(
    16, "isolation", check,
    "a cache in the class or module, a file, clock or environment variable, or a way past the arguments of step",
    exemptible=False,
)  # fmt: skip
