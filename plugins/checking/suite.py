"""The suite of laws: it reports which of them hold for a sampler, schedule or task, which do not, and why."""

from __future__ import annotations

import math
import os
import sysconfig
import time
import traceback
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from harness import DataError, PluginError, Sampler, Schedule, linear
from harness.tasks import Task
from plugins.checking.gaussian import GaussianTask
from plugins.checking.law import Broken, Law, Skip, frozen
from plugins.checking.sampler_law import exemptions, law_of
from plugins.checking.samplers import (
    compiled,
    coordinates,
    derived,
    draws,
    homogeneity,
    hyperparameters,
    isolation,
    leaks,
    noisy_scaling,
    one_step,
    potential,
    real_loop,
    restore,
    scale,
    seeds,
    translation,
    whole,
    zero_temperature,
)
from plugins.checking.samplers.exact import experiments
from plugins.checking.samplers.restore import Resumption

LAWS: tuple[Law, ...] = tuple(
    module.LAW
    for module in (
        isolation, derived, real_loop, one_step, scale, zero_temperature, potential, leaks, restore, seeds,
        hyperparameters, compiled, translation, coordinates, draws, noisy_scaling, whole, homogeneity,
    )
)  # fmt: skip

BY_DESIGN = ("potential", "coordinates", "scale", "translation", "zero-temperature", "noisy-scaling")
"""Laws that a correct sampler may be unable to keep; their messages name `exempt`."""

NOTHING_SHOWN = (
    "exempt from whole-law, neither linear nor a Metropolis kernel, and without a law of its own: nothing is shown of "
    "its law; ship one (plugins.checking.SamplerLaw.check), or remove the exemption"
)
ROUNDED = 1e3
"""A difference below that many roundings over the width of a quotient is due to it: a step has more than one rounding,
and the width may be measured in another direction."""

QUOTIENT = (
    "a difference quotient: the step takes gradients {:.1g} apart, and dividing their difference by so little "
    "multiplies their rounding; take a direction of length 1 and a width of about torch.finfo(theta.dtype).eps ** 0.25 "
    "(1e-4 in float64, 0.02 in float32)"
)
STDLIB = sysconfig.get_paths()["stdlib"]
_REWRITTEN = "\nassert "


@dataclass(frozen=True)
class LawResult:
    """The result of one law: outcome is "passed", "failed", "skipped" or "exempt"; message says why it did not pass."""

    law: str
    outcome: str
    message: str
    seconds: float


def check_sampler(sampler: Sampler | type[Sampler], laws: Collection[str] | None = None) -> list[LawResult]:
    """Hold a sampler, or a class at its defaults, to all laws or to those named. This takes a few seconds."""
    return check_samplers([sampler() if isinstance(sampler, type) else sampler], laws)[0]


def check_samplers(samplers: Sequence[Sampler], laws: Collection[str] | None = None) -> list[list[LawResult]]:
    """Return the results of each sampler in turn; one fresh process serves the law restore for all of them."""
    for sampler in samplers:
        _check_exemptions(sampler)
    chosen = [law for law in LAWS if laws is None or law.name in laws]
    resumption = Resumption(samplers) if restore.LAW in chosen else None
    try:
        return [[_judge(sampler, law, i, resumption) for law in chosen] for i, sampler in enumerate(samplers)]
    finally:
        if resumption is not None:
            resumption.close()


def _check_exemptions(sampler: Sampler) -> None:
    possible = {law.name for law in LAWS if law.exemptible}
    wrong = sorted(exemptions(sampler).keys() - possible)
    if wrong:
        raise PluginError(
            f"{type(sampler).__name__}.exempt names {', '.join(wrong)}; "
            f"a sampler may be exempt from {', '.join(sorted(possible))}, and from nothing else"
        )


def check_task(task: Task, laws: Collection[str] | None = None) -> list[LawResult]:
    """Hold a task to all laws for tasks or to those named; raise `DataError` if its data are missing."""
    from plugins.checking.task_laws import TASK_LAWS

    tried = task.for_laws()
    return [_result(name, partial(law, tried)) for name, law in TASK_LAWS if laws is None or name in laws]


def check_schedule(schedule: Schedule, laws: Collection[str] | None = None) -> list[LawResult]:
    """Hold a schedule to all laws for schedules or to those named."""
    from plugins.checking.schedule_laws import SCHEDULE_LAWS

    return [_result(name, partial(law, schedule)) for name, law in SCHEDULE_LAWS if laws is None or name in laws]


def _judge(sampler: Sampler, law: Law, i: int, resumption: Resumption | None) -> LawResult:
    exempt = exemptions(sampler)
    if law.name in exempt:
        if law is whole.LAW and nothing_is_shown(sampler):
            return LawResult(law.name, "failed", NOTHING_SHOWN + _lines_of(sampler), 0.0)
        return LawResult(law.name, "exempt", exempt[law.name], 0.0)
    unmet = sorted(sampler.needs - GaussianTask.provides)
    if unmet:
        reason = f"needs {', '.join(unmet)}, which no potential offers; a sampler may need "
        return LawResult(law.name, "failed", reason + ", ".join(sorted(GaussianTask.provides)), 0.0)

    def check() -> None:
        if law is restore.LAW and resumption is not None:
            resumption.check(i)
        else:
            _with_advice(law, sampler)

    declare = f"; where it cannot hold, declare exempt = {{'{law.name}': the reason}}" if law.name in BY_DESIGN else ""
    return _result(law.name, check, law.cause, f"{declare}{_lines_of(sampler)}")


def _with_advice(law: Law, sampler: Sampler) -> None:
    """Check a law. If the sampler fails because theta has several coordinates, add a note to the error.

    If the difference that a law finds is rounding over the width of a difference quotient, that is the cause.
    """
    try:
        law.check(sampler)
    except Broken as verdict:
        if verdict.roundings < math.inf and verdict.roundings * (width := potential.quotient(sampler)) < ROUNDED:
            verdict.cause = QUOTIENT.format(width)
        raise
    except (Skip, AssertionError, DataError):
        raise
    except torch.linalg.LinAlgError as error:
        error.add_note("a matrix of a chain that diverges is not finite: factor the identity there, and return NaN")
        raise
    except Exception as error:
        if _in_one_dimension_only(sampler):
            error.add_note("step works in 1 dimension and not in 3; laws use up to 100,003, so write it for any D")
        raise


def _in_one_dimension_only(sampler: Sampler) -> bool:
    """Return whether a step works on a Gaussian in one dimension and raises an error in three."""
    for dim in (1, 3):
        try:
            linear.Probe(sampler, 0.1, 1.0, (1.0,) * dim)
        except Exception:  # noqa: BLE001 - whatever a plugin raises
            return dim == 3
    return False


def nothing_is_shown(sampler: Sampler) -> bool:
    """Return whether the law real-loop does not apply to a sampler, and the sampler ships no law of its own."""
    return not law_of(sampler).ships and not experiments(frozen(sampler))


def place_of(error: BaseException) -> str:
    """Return where in a plugin's code an error was raised, " (file:line, in function)", or "" if in none of it."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not {"harness", "torch", "numpy"} & set(Path(frame.filename).parts)
        and not Path(frame.filename).is_relative_to(Path(__file__).parent)
        and "<" not in frame.filename
        and (not frame.filename.startswith(STDLIB) or "site-packages" in frame.filename)
    ]
    return f" ({os.path.relpath(frames[-1].filename)}:{frames[-1].lineno}, in {frames[-1].name})" if frames else ""


def _lines_of(sampler: Sampler) -> str:
    """Return where the step of a sampler is defined, for a message."""
    code = getattr(type(sampler).step, "__code__", None)
    return "" if code is None else f" ({os.path.relpath(code.co_filename)}:{code.co_firstlineno})"


def _result(law: str, check: Callable[[], None], cause: str = "", after: str = "") -> LawResult:
    """Run one law and return its result. Every exception becomes a result, except `DataError`, which is raised."""
    began = time.perf_counter()
    outcome, message = "passed", ""
    try:
        check()
    except Skip as reason:
        outcome, message = "skipped", str(reason)
    except (Broken, AssertionError) as verdict:
        # pytest adds the expression to the asserts of a distribution that has a plugin of its own.
        usual = getattr(verdict, "cause", "") or cause
        advice = f". Usual cause: {usual}" if usual else ""
        outcome, message = "failed", f"{str(verdict).partition(_REWRITTEN)[0]}{advice}{after}"
    except DataError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a plugin raises is its failure of this law
        outcome, message = (
            "failed",
            "; ".join([f"{type(error).__name__}: {error}{place_of(error)}", *getattr(error, "__notes__", [])]),
        )
    return LawResult(law, outcome, message, round(time.perf_counter() - began, 3))
