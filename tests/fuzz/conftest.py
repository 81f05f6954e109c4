"""How many cases: by default as many as fit a minute or two; HYPOTHESIS_PROFILE=long for many times as many."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

COMMON = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None, "print_blob": False}
settings.register_profile("short", derandomize=True, max_examples=100, phases=[Phase.generate], **COMMON)
settings.register_profile("long", max_examples=1000, **COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "short"))
