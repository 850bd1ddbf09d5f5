"""CasADi's generated C, compiled by gcc with full optimization for this machine; the form is CasADi's."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from ..workload import Form, Problem, Workload
from . import Contender, casadi

LABEL, PACKAGE, NEEDS = "CasADi, C", "casadi", "gcc"
THREADS = False                 # its packages come without OpenMP, and the C that they generate for it is broken


def build(form: Form, problem: Problem, workload: Workload) -> Contender:
    """The same functions, as a shared library."""
    return casadi.build(form, problem, workload, compiled)


def compiled(function: Any) -> Any:
    """The function from generated C."""
    import casadi as ca
    folder, before = Path(tempfile.mkdtemp(prefix="bench-casadi-")), os.getcwd()
    os.chdir(folder)                    # code is generated into the working folder
    try:
        function.generate(f"{function.name()}.c")
    finally:
        os.chdir(before)
    library = folder / f"{function.name()}.so"
    options = ["-O2" if function.n_instructions() > 20000 else "-O3", "-march=native", "-fPIC", "-shared"]
    subprocess.run(["gcc", *options, str(library.with_suffix(".c")), "-o", str(library), "-lm"], check=True)
    return ca.external(function.name(), str(library))
