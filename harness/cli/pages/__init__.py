"""What `bench show` says about a run, a task, a sampler, a method or a schedule: a record for each."""
