"""The work of `bench gc`, `replay` and `rescore`: deletable files, repeated runs, recomputed metrics."""
