"""`python -m bench [WORDS]` measures the workloads whose names hold one of the words (all without), prints a table for each
number of threads, and writes OUTPUT.json, OUTPUT.md and, with matplotlib, OUTPUT.png. `python -m bench readme` writes the
performance section of the project's README from the published results."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from . import report, tools
from .run import Plan, run
from .workload import workloads

RESULTS = Path(__file__).parent / "results"


def main(argv: list[str] | None = None) -> int:
    """The command line."""
    arguments = parse(argv)
    if arguments.words == ["readme"]:
        return report.write_readme()
    names = tuple(n for n in workloads() if not arguments.words or any(word in n for word in arguments.words))
    if arguments.list or not names:
        print(*(f"{name}: {', '.join(w.sizes)}" for name, w in workloads().items()), sep="\n")
        return 0 if arguments.list else 1
    wanted = arguments.tools.split(",") if arguments.tools else tools.NAMES
    here = tuple(name for name in wanted if tools.installed(name))
    plan = Plan(names, here, tuple(dict.fromkeys(threads(word) for word in arguments.threads.split(","))),
                arguments.rounds, second=not arguments.no_second)
    results = run(plan, report.progress)
    report.show(results)
    print("written:", *report.write(results, Path(arguments.output)))
    return 0


def parse(argv: list[str] | None) -> argparse.Namespace:
    """The command line's words."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("words", nargs="*", help="parts of workload names, or: readme")
    parser.add_argument("--tools", help=f"some of {','.join(tools.NAMES)} (default: those installed)")
    parser.add_argument("--threads", default="1,all", help="numbers of threads (default 1,all)")
    parser.add_argument("--rounds", type=int, default=9, help="turns of each contender (default 9)")
    parser.add_argument("--no-second", action="store_true", help="leave out the first calls of second processes")
    parser.add_argument("--output", default=str(RESULTS / "latest"), help="without ending (default bench/results/latest)")
    parser.add_argument("--list", action="store_true", help="the workloads and their sizes")
    return parser.parse_args(argv)


def threads(word: str) -> int:
    """A number, or all processors."""
    return len(os.sched_getaffinity(0)) if word == "all" and hasattr(os, "sched_getaffinity") else \
        (os.cpu_count() or 1) if word == "all" else int(word)


if __name__ == "__main__":
    sys.exit(main())
