"""Count the files of the project that one run and one leaderboard pass through: those of which a function is called.

`python tests/files_of_a_run.py` prints the number and, with -v, the names. Plugins that only say what they offer are
counted apart, because their number is that of the features. Needs an installed sgmcmc-bench.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import harness

ROOT = Path(harness.__file__).parent.parent
RUN = ("run", "--sampler", "sgld", "--task", "mixture5", "--budget", "smoke", "--seeds", "0-1")
REPORT = ("report", "leaderboard")
CALLED = """
import atexit, os, sys, threading
called = set()
def profile(frame, event, arg):
    code = frame.f_code
    if event == "call" and code.co_flags & 1 and code.co_name[0] != "<":  # a function, neither a module nor a class
        called.add(code.co_filename)
def write():
    sys.setprofile(None)
    with open(os.path.join(os.environ["CALLED"], f"{os.getpid()}-{id(called)}"), "w") as stream:
        stream.write("\\n".join(called))
def end(status, end=os._exit):
    write()
    end(status)
sys.setprofile(profile)
threading.setprofile(profile)
atexit.register(write)
os._exit = end  # workers end by it
"""


def called() -> tuple[list[str], list[str]]:
    """Return the files of which the commands call a function: those of the harness and others, and mere offers."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "sitecustomize.py").write_text(CALLED)
        (folder / "called").mkdir()
        variables = {"PYTHONPATH": name, "CALLED": f"{name}/called", "BENCH_RESULTS": f"{name}/results"}
        for words in (RUN, REPORT):
            bench = [sys.executable, "-c", "from harness.cli import main; main()", *words]
            subprocess.run(bench, env={**os.environ, **variables}, cwd=name, check=True, stdout=subprocess.DEVNULL)
        files = {Path(line) for path in (folder / "called").iterdir() for line in path.read_text().splitlines()}
    names = sorted(str(path.relative_to(ROOT)) for path in files if path.is_relative_to(ROOT) and path.suffix == ".py")
    mine = [name for name in names if name.split("/")[0] in ("harness", "plugins", "tasks", "reports")]
    offers = [name for name in mine if name.endswith("__init__.py") and not name.startswith("harness/")]
    return [name for name in mine if name not in offers], offers


if __name__ == "__main__":
    files, offers = called()
    sys.stdout.write("".join(f"{name}\n" for name in files) if "-v" in sys.argv else "")
    sys.stdout.write(f"{len(files)} files, and {len(offers)} that only say what they offer\n")
