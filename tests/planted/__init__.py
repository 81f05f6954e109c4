"""Samplers with one planted bug each, and the laws of `bench check` that find them.

A bug is a right sampler with some of its parts replaced (`planted.bugs`):

    bug("NoiseTwoPerCentTooWide", Plain, "noise", "derived-law", "The noise is 2 % too wide.", heat="1.02 * heat")

that is its name, its base, its kind, the laws that find it (the cheapest first), what is wrong, and the parts. A part
is the text of a method, statements separated by "; ", the last of them an expression that is returned; in it, the
part's own name is the right value. `before` changes the arguments of the right step and `after` its results, `theta`
and `state`. What is no text is an attribute of the class.

`says` is a part of what the first law has to say; a bug that is found by an error of the harness, and not by the law's
own comparison, must have it. A bug that no law can find has `unseen`, the reason and what else finds it; one that
leaves the sampler's law and cost as they are has `right`, the reason.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass

from harness import Sampler

KINDS = (
    "noise", "drift", "clipping", "boxes", "dimension", "chain count", "step count", "temperature", "step size",
    "precision", "averaging", "greed", "weights", "adaptation", "momentum", "HMC's energy", "memory between runs",
    "environment", "cost", "truth", "declaration",
)  # fmt: skip

STEP = "super().step(theta, state, potential, h, T, noise)"


@dataclass(frozen=True)
class Bug:
    """A planted bug: its sampler, its kind, what is wrong, and by which laws it is found, or why not."""

    sampler: type[Sampler]
    kind: str
    laws: tuple[str, ...]
    what: str
    unseen: str = ""
    right: str = ""
    says: str = ""

    @property
    def name(self) -> str:
        return self.sampler.__name__


BUGS: list[Bug] = []


def plant(sampler, kind, laws, what, **reasons):
    """Declare a class to be a planted bug."""
    planted = Bug(sampler, kind, tuple(laws.split()), what, **reasons)
    assert kind in KINDS
    outcomes = (planted.laws, planted.unseen, planted.right)
    assert sum(map(bool, outcomes)) == 1, "planted, out of sight, or right"
    BUGS.append(planted)
    return sampler


def maker(names):
    """`defined` for a module with these global names, where the classes are put too, as laws import them by name."""

    def defined(name, bases, **parts):
        bases = bases if isinstance(bases, tuple) else (bases,)
        lines = [f"class {name}({', '.join(base.__name__ for base in bases)}):", "    pass"]
        for part, text in parts.items():
            lines += method(type(name, bases, {}), part, text) if isinstance(text, str) else []
        exec("\n".join(lines), names)  # noqa: S102 - the texts are those of a table
        for attribute, value in parts.items():
            if not isinstance(value, str):
                setattr(names[name], attribute, value)
        return names[name]

    return defined


def planter(names):
    """`bug` for a module with these global names."""
    defined = maker(names)

    def bug(name, bases, kind, laws, what, *, unseen="", right="", says="", **parts):
        plant(defined(name, bases, **parts), kind, laws, what, unseen=unseen, right=right, says=says)

    return bug


def method(base, part, text):
    """The lines of a method from its text."""
    if part == "before":
        part, text = "step", f"{text}; {STEP}"
    if part == "after":
        part, text = "step", f"theta, state = {STEP}; {text}; (theta, state)"
    arguments = ", ".join(list(inspect.signature(getattr(base, part)).parameters)[1:])
    *statements, result = text.split("; ")
    if re.search(rf"(?<![.\w]){part}\b", text):
        statements.insert(0, f"{part} = super().{part}({arguments})")
    statements.append(f"return {result}")
    return [f"    def {part}(self, {arguments}):", *(f"        {line}" for line in statements)]
