"""A terminal whose encoding lacks a character gets another in its place, never an error."""

from __future__ import annotations

import os
import subprocess
import sys


def test_what_the_terminal_cannot_show_is_replaced(tmp_path):
    plugin = tmp_path / "accents.py"
    plugin.write_text(
        "from harness import Info, hook\n"
        "@hook\n"
        "def bench_samplers():\n"
        "    return [Info('accents', 'accents:Accents', 'na\\u00efve \\U0001f600')]\n"
    )
    code = "from harness.cli import main; main()"
    command = [sys.executable, "-c", code, "--plugin", str(plugin), "ls", "samplers"]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "na?ve ?" in done.stdout
