"""The Leimkuhler-Matthews scheme as a plugin for sgmcmc-bench."""

from harness import Info, hook


@hook
def bench_samplers():
    return [Info("leimkuhler-matthews", "bench_leimkuhler.sampler:LeimkuhlerMatthews", "SGLD with averaged noise")]


@hook
def bench_verbs():
    return [Info("halves", "bench_leimkuhler.verb:halves", "Step sizes, each half of the one before.")]
