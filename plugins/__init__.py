"""Built-in samplers, schedules, methods and papers: plugins like any other, found through the same entry points."""
