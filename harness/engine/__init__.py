"""The execution of runs: the loop that advances chains, the modes of execution, and the exact law of a linear step."""
