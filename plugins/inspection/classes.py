"""Load the classes of plugins for the verbs that need them."""

from __future__ import annotations

from typing import Any

from harness import BenchError, Info, PluginError
from harness.contracts import Offer, check, format_error, load, plugin_code, schema

BASES = {
    "samplers": "harness:Sampler", "schedules": "harness:Schedule", "tasks": "harness.tasks:Task",
    "reports": "harness.reports:Report", "launchers": "plugins.clusters:Launcher",
}  # fmt: skip
"""The base class of each kind."""


def loaded(offer: Offer) -> Any:
    """Return the class of an offer. `PluginError` if it does not load or the offer is a method."""
    if not isinstance(offer.info, Info):
        raise PluginError(f"{offer.name} is a method: it has no class of its own")
    return load(offer.target)


def fault(offer: Offer) -> str | None:
    """Return the problem of an offer's class, or None if there is none.

    The class may fail to load, have the wrong base class, or refuse its own defaults.
    """
    if not isinstance(offer.info, Info):
        return None
    try:
        cls = loaded(offer)
        with plugin_code("its defaults are refused"):
            if offer.kind in {"verbs", "facts", "settings"}:
                return None if callable(cls) else f"{offer.target} is not a function"
            base = BASES[offer.kind]
            if not (isinstance(cls, type) and issubclass(cls, load(base))):
                return f"{offer.target} is not a subclass of {base.replace(':', '.')}"
            if offer.kind != "reports":
                _make_from_defaults(cls)
    except PluginError as error:
        return str(error)
    except BenchError as error:
        return f"its defaults are refused: {format_error(error)}"
    return None


def _make_from_defaults(cls: type) -> None:
    """Create an object if every field has a default, else check each default on its own."""
    fields = schema(cls)
    if not any(field.required for field in fields):
        cls()
        return
    for field in fields:
        if not field.required:
            check(field, field.default, where=cls.__name__)
