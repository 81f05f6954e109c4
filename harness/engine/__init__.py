"""Advances the chains of a run: the loop, the modes of execution, and the exact law of a linear step."""
