"""Settings of some methods on `mnist-cnn` and `digits-cnn`: first ones that work, not tuned ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.tasks import StatedSettings, StatedValue

PROTOCOLS = {"digits-cnn": ("default", "unseen"), "mnist-cnn": ("default",)}
SETTINGS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "digits-cnn": {
        "sgld": {"schedule": "constant", "schedule.step_size": 7e-5},
        "csgld": {"schedule.step_size": 1.4e-4, "run.burn_in": 0.0},
        "sghmc": {"schedule": "constant", "schedule.step_size": 7e-6},
        "csghmc": {"schedule.step_size": 1.4e-5, "run.burn_in": 0.0},
        "psgld": {"schedule": "constant", "schedule.step_size": 3e-4, "sampler.lam": 0.014},
        "adam": {"schedule": "constant", "schedule.step_size": 1e-3, "sampler.lam": 1.4e-5},
    },
    "mnist-cnn": {
        "sgld": {"schedule": "constant", "schedule.step_size": 1.7e-6},
        "csgld": {"schedule.step_size": 3.3e-6, "run.burn_in": 0.0},
        "sghmc": {"schedule": "constant", "schedule.step_size": 1.7e-7},
        "csghmc": {"schedule.step_size": 3.3e-7, "run.burn_in": 0.0},
        "psgld": {"schedule": "constant", "schedule.step_size": 3e-4, "sampler.lam": 0.6},
        "adam": {"schedule": "constant", "schedule.step_size": 1e-3, "sampler.lam": 6e-4},
    },
}
SOURCES = {
    "schedule": "the simplest",
    "schedule.step_size": "tried by hand for sgld, csgld, psgld on held-out digits; scaled by N and friction",
    "run.burn_in": "each cycle explores first",
    "sampler.lam": "N times 1e-5 (psgld) or 1e-8 (adam), usual for the mean loss",
}


def stated(*_: Any) -> list[StatedSettings]:
    """Return the settings, for the hook `bench_settings`."""
    return [
        StatedSettings(
            method, task, protocol, task, {name: StatedValue(v, "ours", SOURCES[name]) for name, v in values.items()}
        )
        for task, methods in SETTINGS.items()
        for protocol in PROTOCOLS[task]
        for method, values in methods.items()
    ]
