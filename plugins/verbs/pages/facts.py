"""What a sampler declares, and what follows from its code. `bench show` and its page print it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from harness.analysis.conventions import CONVENTIONS, Step
from harness.contracts.parameters import schema
from harness.contracts.registry import Offer
from harness.runs import plugin_metadata
from harness.system.errors import UsageError

TERMS = 50_000
LEARNING_RATE = 0.1
"""The step whose conversions are shown: this learning rate on the mean loss of so many terms."""

QUICK = ("derived-law", "zero-temperature", "scale")
"""Laws that are asked for a page: those without simulation that may have nothing to say about a sampler."""

UNLIMITED = "unlimited"
"""The stability limit of a sampler that is stable everywhere."""

OWN_RULE = "an optimiser of its own"

DERIVED = (
    "gradients_per_step", "full_gradients_per_step", "stability_limit", "limit_bias", "variance", "state",
    "stationary_variance", "scaling", "shown", "laws", "conversions",
)  # fmt: skip


def facts(offer: Offer, cls: type) -> dict[str, Any]:
    """What a sampler's class declares, and what follows from its code at the default hyperparameters.

    stability_limit      largest x = h times curvature that is stable; None where it is not linear
    limit_bias           stationary variance over T/curvature as h goes to 0; 1 where the target is exact in that limit
    variance             of N(0, 1) at T = 1 as h goes to 0, adaptation included; None without a stationary law
    stationary_variance  lambda var/T by x, at curvature lambda = 1 and T = 1; with exact gradients, and with gradient
                         noise of variance V = lambda T
    scaling              what keeps the path the same where U and T become c U and c T
    shown                what `bench check` shows of its law, and whether any state is frozen
    laws                 laws of `bench check` that it is exempt from, or that have nothing to say about it
    """
    record = declared(cls) | dict.fromkeys(DERIVED)
    if any(field.required for field in schema(cls)):
        return record | {"note": "some hyperparameters have no default, so results that depend on them are not shown"}
    notes: list[str] = []
    made = _asked(cls, notes)
    if made is not None:
        record |= declared(made)
        record |= _asked(lambda: _costs(offer), notes) or {}
        record["limit_bias"] = _asked(lambda: _limit_bias(made, record), notes)
        record["variance"] = _asked(lambda: _variance(made), notes)
        record["state"] = _asked(lambda: state(made), notes)
        record["shown"] = _asked(lambda: shown(made), notes)
        record["laws"] = _asked(lambda: laws(made), notes)
        record["stationary_variance"] = _asked(lambda: _variances(made, record), notes)
        record["scaling"] = _asked(lambda: scaling(made), notes)
        record["conversions"] = conversions(made) if not no_conversions(record) else []
    return record | ({"note": "; ".join(dict.fromkeys(notes))} if notes else {})


def declared(thing: Any) -> dict[str, Any]:
    """What a sampler says of itself, or its class: what there depends on hyperparameters is left out."""
    named = {name: getattr(thing, name) for name in ("needs", "adaptive", "refresh_every", "zero_temperature")}
    said = {name: None if isinstance(value, property) else value for name, value in named.items()}
    rule = said["zero_temperature"]
    return {
        "needs": sorted(said["needs"] or ()), "adaptive": list(said["adaptive"] or ()),
        "refresh_every": said["refresh_every"] or None,
        "zero_temperature": OWN_RULE if callable(rule) else rule,
    }  # fmt: skip


def state(made: Any) -> list[dict[str, Any]]:
    """What it carries from step to step, a row an entry: the shape in terms of C chains and D dimensions."""
    from harness.engine.linear import Probe

    few, many = (Probe(made, h=0.01, T=1.0, curvature=(1.0,) * dim).start for dim in DIMS)
    return [
        {
            "entry": name,
            "shape": f"({', '.join(['C', *map(_axis, few[name].shape[1:], many[name].shape[1:])])}"
            + (",)" if few[name].ndim == 1 else ")"),
            "type": "real" if few[name].is_floating_point() else str(few[name].dtype).removeprefix("torch."),
            "adaptive": "yes" if name in made.adaptive else "",
        }
        for name in sorted(few)
    ]


DIMS = (3, 5)


def _axis(few: int, many: int) -> str:
    """The length of an axis in terms of D, from its lengths at two D."""
    if (few, many) == tuple(dim * dim for dim in DIMS):
        return "D^2"
    slope = (many - few) // (DIMS[1] - DIMS[0])
    rest = few - slope * DIMS[0]
    scaled = f"{slope} D" if slope > 1 else "D" * slope
    return " + ".join(part for part in (scaled, str(rest) if rest or not slope else "") if part)


def shown(made: Any) -> list[dict[str, str]]:
    """What `bench check` shows of its law."""
    from plugins.laws.shown import shown

    return shown(made)


def laws(made: Any) -> list[dict[str, str]]:
    """Exemptions, and which of the quick laws have nothing to say about it, each with its reason."""
    from harness.contracts.registry import law_of
    from plugins.laws.suite import LAWS, check_sampler

    asked = {*QUICK, *made.exempt, *law_of(type(made)).exempt}
    results = check_sampler(made, [law.name for law in LAWS if law.name in asked])
    return [{"law": r.law, "outcome": r.outcome, "reason": r.message} for r in results if r.outcome != "passed"]


def no_curve(record: Mapping[str, Any]) -> str:
    """Why there is no stationary variance to show; "" where there is."""
    if record["laws"] is not None and record["limit_bias"] is None:
        return "by its own declaration it has no stationary law"
    if record["stationary_variance"]:
        return ""
    reasons = [row["reason"] for row in record["laws"] or () if row["law"] == "derived-law"]
    return (reasons or [record.get("note") or "no stationary law was found"])[0]


def scaling(made: Any) -> list[dict[str, str]]:
    """What h and the hyperparameters become where U and T become c U and c T: the law `scale`; [] where exempt."""
    if "scale" in made.exempt:
        return []
    numbers = [field.name for field in dataclasses.fields(made) if isinstance(getattr(made, field.name), float)]
    seen = _without_zeros(made, numbers)
    other, factor = seen.rescale(2.0)
    ratios = {name: getattr(other, name) / getattr(seen, name) for name in numbers if getattr(seen, name)}
    rows = [{"setting": "h", "becomes": _power("h", factor)}]
    rows += [{"setting": name, "becomes": _power(name, ratio)} for name, ratio in ratios.items() if ratio != 1]
    return rows


def _without_zeros(made: Any, numbers: Iterable[str]) -> Any:
    """The sampler with 1 for every hyperparameter that is 0, of which c times as much is seen; itself if it refuses."""
    try:
        return dataclasses.replace(made, **{name: 1.0 for name in numbers if not getattr(made, name)})
    except UsageError:
        return made


def _power(name: str, factor: float) -> str:
    power = math.log2(factor)
    return name if not power else f"c^{power:g} {name}" if power != 1 else f"c {name}"


def no_conversions(record: Mapping[str, Any]) -> str:
    """Why the conversions of step sizes do not apply; "" where they do."""
    if not record["gradients_per_step"]:
        return "its step is not a multiple of a stochastic gradient; the equation says how h enters"
    if not record["scaling"]:
        return "it is exempt from the law of scale, and no rule is known"
    if record["scaling"][0]["becomes"] != "c^-1 h":
        return "its h is not in units of 1/U; to go over to the mean loss U/N, scale by c = 1/N as below"
    return ""


def conversions(made: Any) -> list[dict[str, str]]:
    """Its step in other conventions: how to write it there, how to come back, and an example."""
    if not made.gradients_per_step:
        return []
    cold = made.limit_bias() == 0
    h, T = LEARNING_RATE / TERMS, 0.0 if cold else 1.0
    example = Step(h=h, T=T, N=TERMS, alpha=getattr(made, "friction", None))
    return [
        {
            "convention": convention.name,
            "write": formulas(convention.settings),
            "here": formulas(convention.back),
            "example": ", ".join(f"{name} = {value:.6g}" for name, value in convention.to(example).items()),
        }
        for convention in CONVENTIONS
        if convention.can_say(example)
    ]


def formulas(formulas: Mapping[str, str]) -> str:
    """Formulas as one writes them; a symbol that is the same on both sides needs none."""
    return ", ".join(f"{name} = {_written(text)}" for name, text in formulas.items() if name != text) or "the same"


def _written(text: str) -> str:
    return text.replace("**", "^").replace("*", " ")


def _costs(offer: Offer) -> dict[str, Any]:
    found = plugin_metadata.sampler_facts(offer, {})
    limit = found["stability_limit"]
    kept = ("gradients_per_step", "full_gradients_per_step")
    unbounded = limit is not None and math.isinf(limit)
    return {**{name: found[name] for name in kept}, "stability_limit": UNLIMITED if unbounded else limit}


def _limit_bias(made: Any, record: Mapping[str, Any]) -> float | None:
    from plugins.verbs.pages import stationary

    limit = record["stability_limit"]
    return stationary.limit_bias(made, None if limit == UNLIMITED else limit)


def _variance(made: Any) -> float | None:
    from harness.contracts.registry import law_of

    found = law_of(type(made)).variance(made)
    return float(f"{found:.4g}") if found else None


def _variances(made: Any, record: Mapping[str, Any]) -> list[dict[str, str]]:
    """The small table; nothing where no law is linear."""
    from harness.engine.gaussian import GaussianTask
    from harness.engine.linear import derive
    from plugins.verbs.pages import stationary

    if made.needs - GaussianTask.provides or not derive(made, 1.0, 1.0).linear:
        return []
    limit = record["stability_limit"]
    return stationary.table(made, None if limit == UNLIMITED else limit)


def _asked(question: Callable[[], Any], notes: list[str]) -> Any:
    """The answer; None, with a note, where it fails."""
    try:
        return question()
    except Exception as error:  # noqa: BLE001 - a plugin may fail in any way, and its page is still worth showing
        notes.append(f"some results at the defaults are missing: {type(error).__name__}: {error}")
        return None
