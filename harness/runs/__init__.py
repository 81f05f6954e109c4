"""Plan runs and execute them: which runs, in which processes, on which devices."""
