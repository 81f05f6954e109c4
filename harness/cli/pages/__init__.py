"""The records that `bench show` prints: of a run, task, sampler, method or schedule."""
