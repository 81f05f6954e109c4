"""Peak memory of a whole `bench run` that keeps millions of states: of its largest process, from /proc."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

GOAL_MIB = 1024


def measure(states: int, chains: int, mode: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """Run SGLD on mixture25 with all of `states` states kept; peak MiB, seconds, MiB of draws on disk."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["bench", "--results", folder, "run", "--sampler", "sgld", "--task", "mixture25", "--seeds", "0"]
        command += ["--chains", str(chains), "--budget", f"steps={states // chains}", "--set", f"run.compile={mode}"]
        began = time.perf_counter()
        with (Path(folder) / "log").open("w+") as log:
            process = subprocess.Popen(
                command, env=dict(environment), start_new_session=True, stdout=log, stderr=subprocess.STDOUT
            )
            peak = 0
            while process.poll() is None:
                peak = max(peak, largest(process.pid))
                time.sleep(0.05)
            log.seek(0)
            if process.returncode:
                raise RuntimeError(f"{' '.join(command)}: {log.read()}")
        seconds = time.perf_counter() - began
        size = sum(path.stat().st_size for path in Path(folder).rglob("draws.safetensors"))
    measured = {"mib": peak / 1024, "seconds": seconds, "mib_on_disk": size / 2**20}
    return {"states": states, "chains": chains, "mode": mode, **measured}


def largest(session: int) -> int:
    """The largest peak (VmHWM, kB) among the living processes of a session; 0 where there is no /proc."""
    peak = 0
    for entry in os.scandir("/proc") if Path("/proc").exists() else ():
        if not entry.name.isdigit():
            continue
        try:
            after_name = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
            if int(after_name[3]) != session:
                continue
            lines = Path(entry.path, "status").read_text().splitlines()
        except (OSError, IndexError, ValueError):
            continue  # it ended meanwhile
        peak = max(peak, next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0))
    return peak
