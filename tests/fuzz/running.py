"""Commands in this process, and what every end of one has in common."""

import contextlib
import io

from fuzz.hostile import control

from harness.cli.app import run

ENDS = {0, 1, 2, 3, 4}
"""The documented exit codes, but for an interruption's and a night's."""


def bench(results, *words):
    """Exit code, stdout and stderr."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(["--results", str(results), *words])
    return code, out.getvalue(), err.getvalue()


def ends_well(results, *words, codes=ENDS):
    """The same, after a look at how it ended."""
    code, out, err = bench(results, *words)
    assert "Traceback" not in out + err, (words, err[-1000:])
    assert "internal error" not in err, (words, err[-1000:])
    assert code in codes, (words, code, err[-1000:])
    assert control(out + err) == [], words
    return code, out, err
