"""PyTorch with torch.compile, forward and backward."""

from __future__ import annotations

from ..workload import Form, Problem, Workload
from . import Contender
from . import torch as eager

LABEL, PACKAGE, NEEDS = "PyTorch, compiled", "torch", "g++"


def build(form: Form, problem: Problem, workload: Workload) -> Contender:
    """As eager, the function compiled for the shapes it is called with."""
    import torch
    torch._dynamo.reset()
    return eager.build(form, problem, workload, lambda f: torch.compile(f, dynamic=False))
