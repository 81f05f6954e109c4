"""Commands in this process, and what every end of one has in common."""

from fuzz.hostile import control
from support import bench_here

ENDS = {0, 1, 2, 3, 4}
"""The documented exit codes, but for an interruption's and a night's."""


def ends_well(results, *words, codes=ENDS):
    """`bench WORDS` in this process, after a look at how it ended."""
    code, out, err = bench_here(results, *words)
    assert "Traceback" not in out + err, (words, err[-1000:])
    assert "internal error" not in err, (words, err[-1000:])
    assert code in codes, (words, code, err[-1000:])
    assert control(out + err) == [], words
    return code, out, err
