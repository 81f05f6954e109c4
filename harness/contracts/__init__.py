"""What plugins declare (samplers, schedules, tasks, hyperparameters, hooks), and how plugins are found and loaded."""
