"""The records that `bench show` prints about a run, task, sampler, method or schedule."""
