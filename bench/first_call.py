"""How long the first gradient takes in a new process: `python -m bench.first_call NAME` is such a process.

`cold`: empty cache folder; `warm`: the folder that a cold process filled.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
KINDS = ("import", "first call", "second call")


def main(name: str) -> None:
    """In the new process: import, call twice, print the seconds."""
    start = time.perf_counter()
    import adcompile  # noqa: F401
    imported = time.perf_counter()
    from .workloads import table
    (workload,) = [w for w in table() if w.name == name]
    args, f = workload.arguments(), workload.compiled()
    seconds = [imported - start]
    for _ in range(2):
        start = time.perf_counter()
        f(*args)
        seconds.append(time.perf_counter() - start)
    print(json.dumps(dict(zip(KINDS, seconds, strict=True))))


def measure(name: str, repeats: int = 3) -> dict[str, dict[str, float]]:
    """Medians of the seconds with an empty and with a filled cache."""
    runs: dict[str, list[dict[str, float]]] = {"cold": [], "warm": []}
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            for temperature in runs:
                runs[temperature].append(new_process(name, folder))
    return {temperature: {kind: statistics.median(r[kind] for r in found) for kind in KINDS}
            for temperature, found in runs.items()}


def new_process(name: str, cache: str) -> dict[str, float]:
    """One process with this cache folder."""
    environment = {**os.environ, "ADCOMPILE_CACHE_DIR": cache}
    done = subprocess.run([sys.executable, "-m", "bench.first_call", name], cwd=PROJECT, env=environment, text=True,
                          stdout=subprocess.PIPE, check=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


if __name__ == "__main__":
    main(sys.argv[1])
