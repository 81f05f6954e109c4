"""By default few cases, the same ones every time; HYPOTHESIS_PROFILE=long for other and more ones, as `nox -s fuzz`."""

from fuzz.budget import PROFILE
from hypothesis import HealthCheck, Phase, settings

COMMON = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}
settings.register_profile(
    "short", derandomize=True, max_examples=25, phases=[Phase.explicit, Phase.generate], print_blob=False, **COMMON
)
settings.register_profile("long", max_examples=1000, print_blob=True, **COMMON)
settings.load_profile(PROFILE)
