"""Posteriors of the public database posteriordb, judged against its reference draws."""
