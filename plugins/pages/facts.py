"""The declarations of a sampler, and what follows from its code, as `bench show` and its page print them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness import UsageError, linear
from harness.contracts import Offer, schema
from harness.runs import plugin_metadata
from plugins.checking.gaussian import GaussianTask
from plugins.checking.sampler_law import exemptions, law_of
from plugins.checking.samplers.scale import rescaled
from plugins.checking.shown import shown
from plugins.checking.suite import LAWS, check_sampler
from plugins.pages import stationary
from plugins.pages.conventions import CONVENTIONS, Step, formulas, settings_text
from plugins.toml_files import read_toml

TERMS = 50_000
LEARNING_RATE = 0.1
"""The step whose conversions are shown: this learning rate on the mean loss of TERMS terms."""

COMPARISONS = Path(__file__).with_name("comparisons.toml")

QUICK = ("derived-law", "zero-temperature", "scale")
"""Laws without simulation that may not apply to a sampler, and whose outcome is on its page."""

UNLIMITED = "unlimited"
"""The stability limit of a sampler that is stable everywhere."""

OWN = "sgmcmc-bench"
"""The distribution whose samplers `COMPARISONS` has."""

OWN_RULE = "an optimiser of its own"
DIMS = (3, 5)

HOW_TO_READ = {
    "zero_temperature": "what the sampler is at T = 0",
    "stability_limit": "the largest h lambda that is stable, lambda the curvature",
    "limit_bias": "lambda var/T as h goes to 0, for U = lambda theta^2/2; 1 if the target is exact in that limit",
    "variance": "of N(0, 1) at T = 1 as h goes to 0, adaptation included",
    "stationary_variance": (
        "x is h lambda. Derived from the code of a step at the default hyperparameters, without simulation: with exact "
        "gradients, and with gradient noise of variance V. Adaptive entries of the state are held where a chain near "
        "theta = 1 takes them."
    ),
    "noisy_gradients": (
        "lambda var/T on N(0, 1) as h goes to 0, with gradient noise of variance V: the scaling uses the gradient of "
        "the same minibatch. Stated, and measured by the law noisy-scaling."
    ),
    "scaling": "What keeps the path the same if U and T become c U and c T; c = 1/N gives the mean loss.",
    "shown": "What `bench check` shows of the sampler by each law.",
    "laws": "Laws from which the sampler is exempt, or which do not apply.",
    "compared_with_its_source": (
        "A number of the authors' code or formula, or of a library, and ours; the test computes both anew."
    ),
    "conversions": (
        f"What to write in other conventions, what their settings are here, and as an example the step "
        f"{LEARNING_RATE / TERMS:g} with N = {TERMS:,} terms."
    ),
}
"""Explanations by entry of a record. U is the potential of the full data."""

DERIVED = (
    "gradients_per_step", "full_gradients_per_step", "stability_limit", "limit_bias", "variance", "no_variance",
    "state", "stationary_variance", "noisy_gradients", "scaling", "shown", "laws", "conversions", "no_conversions",
)  # fmt: skip


def facts(offer: Offer, cls: type) -> dict[str, Any]:
    """Return the declarations of a sampler's class and what follows from its code, as `HOW_TO_READ` explains.

    stability_limit, limit_bias, stationary_variance and variance are None if there is no linear or no stationary law;
    `no_variance` and `no_conversions` say why there is no stationary variance and why there are no conversions.
    """
    record = {**declared(cls), **dict.fromkeys(DERIVED), "how_to_read": HOW_TO_READ}
    if offer.distribution == OWN and (rows := comparisons(offer.name)):
        shown_entries = ("quantity", "source", "theirs", "ours", "test")
        record["compared_with_its_source"] = [{name: row[name] for name in shown_entries} for row in rows]
    if any(field.required for field in schema(cls)):
        why = "some hyperparameters have no default, so results that depend on them are not shown"
        return record | {"note": why, "no_variance": why, "no_conversions": why}
    notes: list[str] = []

    def ask(question: Callable[[], Any]) -> Any:
        """Return the answer, or None with a note if it fails: plugins may fail in any way, and the rest is of use."""
        try:
            return question()
        except Exception as error:  # noqa: BLE001
            notes.append(f"some results at the defaults are missing: {type(error).__name__}: {error}")
            return None

    sampler = ask(cls)
    if sampler is not None:
        record |= declared(sampler) | (ask(lambda: _costs(offer)) or {})
        limit = None if record["stability_limit"] == UNLIMITED else record["stability_limit"]
        answers = {
            "limit_bias": lambda: stationary.limit_bias(sampler, limit),
            "variance": lambda: _rounded(law_of(sampler).variance(sampler)),
            "state": lambda: state(sampler), "shown": lambda: shown(sampler), "laws": lambda: laws(sampler),
            "stationary_variance": lambda: _variances(sampler, limit), "scaling": lambda: scaling(sampler),
            "noisy_gradients": lambda: [
                {"V": f"{noise:g} lambda T", "lambda var/T": f"{variance:g}"}
                for noise, variance in law_of(sampler).noisy_variance.items()
            ],
        }  # fmt: skip
        record |= {name: ask(question) for name, question in answers.items()}
        record["no_conversions"] = _no_conversions(record)
        record["conversions"] = [] if record["no_conversions"] else conversions(sampler)
    record |= {"note": "; ".join(dict.fromkeys(notes))} if notes else {}
    record["no_variance"] = _no_variance(record)
    return record


def comparisons(sampler: str) -> list[dict[str, Any]]:
    """Return the rows in which a built-in sampler is compared with its source; `theirs` is None without a number."""
    return [{"theirs": None, **row} for row in read_toml(COMPARISONS).get(sampler, [])]


def declared(plugin: Any) -> dict[str, Any]:
    """Return the declarations of a sampler, or of its class without those that depend on hyperparameters."""
    named = {name: getattr(plugin, name) for name in ("needs", "adaptive", "refresh_every", "zero_temperature")}
    values = {name: None if isinstance(value, property) else value for name, value in named.items()}
    rule = values["zero_temperature"]
    return {
        "needs": sorted(values["needs"] or ()), "adaptive": list(values["adaptive"] or ()),
        "refresh_every": values["refresh_every"] or None,
        "zero_temperature": OWN_RULE if callable(rule) else rule,
    }  # fmt: skip


def state(sampler: Any) -> list[dict[str, Any]]:
    """Return a row for each entry of the state, with its shape in terms of C chains and D dimensions."""
    few, many = (linear.Probe(sampler, h=0.01, T=1.0, curvature=(1.0,) * dim).start for dim in DIMS)
    return [
        {
            "entry": name,
            "shape": f"({', '.join(['C', *map(_axis, few[name].shape[1:], many[name].shape[1:])])}"
            + (",)" if few[name].ndim == 1 else ")"),
            "type": "real" if few[name].is_floating_point() else str(few[name].dtype).removeprefix("torch."),
            "adaptive": "yes" if name in sampler.adaptive else "",
        }
        for name in sorted(few)
    ]


def _axis(few: int, many: int) -> str:
    """Return the length of an axis in terms of D, from its lengths at two values of D."""
    if (few, many) == tuple(dim * dim for dim in DIMS):
        return "D^2"
    slope = (many - few) // (DIMS[1] - DIMS[0])
    rest = few - slope * DIMS[0]
    scaled = f"{slope} D" if slope > 1 else "D" * slope
    return " + ".join(part for part in (scaled, str(rest) if rest or not slope else "") if part)


def laws(sampler: Any) -> list[dict[str, str]]:
    """Return the exemptions, and the quick laws that do not apply to the sampler, each with its reason."""
    asked = {*QUICK, *exemptions(sampler)}
    results = check_sampler(sampler, [law.name for law in LAWS if law.name in asked])
    return [{"law": r.law, "outcome": r.outcome, "reason": r.message} for r in results if r.outcome != "passed"]


def scaling(sampler: Any) -> list[dict[str, str]]:
    """Return how h and the hyperparameters change if U and T become c U and c T (law `scale`); [] if exempt."""
    if "scale" in sampler.exempt:
        return []
    numbers = [field.name for field in dataclasses.fields(sampler) if isinstance(getattr(sampler, field.name), float)]
    seen = sampler
    with suppress(UsageError):  # a hyperparameter that is 0 does not show a factor c, so it is set to 1
        seen = dataclasses.replace(sampler, **{name: 1.0 for name in numbers if not getattr(sampler, name)})
    other, factor = rescaled(seen, 2.0)
    ratios = {name: getattr(other, name) / getattr(seen, name) for name in numbers if getattr(seen, name)}
    changed = {"h": factor, **{name: ratio for name, ratio in ratios.items() if ratio != 1}}
    return [{"setting": name, "becomes": _power(name, ratio)} for name, ratio in changed.items()]


def _power(name: str, factor: float) -> str:
    power = math.log2(factor)
    return name if not power else f"c^{power:g} {name}" if power != 1 else f"c {name}"


def conversions(sampler: Any) -> list[dict[str, str]]:
    """Return the sampler's step in every convention: its settings, what they are here, and an example."""
    cold = sampler.limit_bias() == 0
    h, T = LEARNING_RATE / TERMS, 0.0 if cold else 1.0
    example = Step(h=h, T=T, N=TERMS, alpha=getattr(sampler, "friction", None))
    return [
        {
            "convention": convention.name, "write": formulas(convention.settings), "here": formulas(convention.back),
            "example": settings_text(convention.to(example)),
        }
        for convention in CONVENTIONS
        if convention.can_express(example)
    ]  # fmt: skip


def _no_variance(record: Mapping[str, Any]) -> str | None:
    """Return why there is no stationary variance to show; None if there is one."""
    if record["laws"] is not None and record["limit_bias"] is None:
        return "by its own declaration it has no stationary law"
    if record["stationary_variance"]:
        return None
    reasons = [row["reason"] for row in record["laws"] or () if row["law"] == "derived-law"]
    return str((reasons or [record.get("note") or "no stationary law was found"])[0])


def _no_conversions(record: Mapping[str, Any]) -> str | None:
    """Return why the conversions of step sizes do not apply; None if they do."""
    if not record["gradients_per_step"]:
        return "its step is not a multiple of a stochastic gradient; the equation says how h enters"
    if not record["scaling"]:
        return "it is exempt from the law of scale, and no rule is known"
    if record["scaling"][0]["becomes"] != "c^-1 h":
        return "its h is not in units of 1/U; for the mean loss U/N, scale by c = 1/N"
    return None


def _costs(offer: Offer) -> dict[str, Any]:
    costs = plugin_metadata.sampler_facts(offer, {})
    limit = costs.stability_limit
    unbounded = limit is not None and math.isinf(limit)
    kept = {name: getattr(costs, name) for name in ("gradients_per_step", "full_gradients_per_step")}
    return {**kept, "stability_limit": UNLIMITED if unbounded else limit}


def _rounded(variance: float | None) -> float | None:
    return float(f"{variance:.4g}") if variance else None


def _variances(sampler: Any, limit: float | None) -> list[dict[str, str]]:
    """Return the small table; nothing if a step is not linear."""
    if sampler.needs - GaussianTask.provides or not linear.derive(sampler, 1.0, 1.0).linear:
        return []
    return stationary.table(sampler, limit)
