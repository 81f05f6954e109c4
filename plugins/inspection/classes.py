"""Load the classes of plugins for the verbs that need them."""

from __future__ import annotations

from typing import Any

from harness import BenchError, Info, PluginError
from harness.contracts.parameters import check, schema
from harness.contracts.plugin_errors import format_error, plugin_code
from harness.contracts.registry import Offer, load


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
            base = _base(offer.kind)
            if not (isinstance(cls, type) and issubclass(cls, base)):
                return f"{offer.target} is not a subclass of harness.{base.__name__}"
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


def _base(kind: str) -> type:
    from harness import Launcher, Report, Sampler, Schedule, Task

    bases: dict[str, type] = {"samplers": Sampler, "schedules": Schedule, "tasks": Task, "reports": Report}
    return (bases | {"launchers": Launcher})[kind]
