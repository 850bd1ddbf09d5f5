"""PyTorch, eager: the form takes `torch` and returns the function of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..workload import Form, Problem, Workload
from . import Contender

LABEL, PACKAGE = "PyTorch", "torch"


def build(form: Form, problem: Problem, workload: Workload, transform: Callable[[Any], Any] = lambda f: f) -> Contender:
    """`torch.autograd.grad` of the function's result."""
    import torch
    torch.set_default_dtype(torch.float64)
    f = transform(form.function(torch))
    positions = problem.positions

    def tensors(args: Any) -> list[Any]:
        made = [torch.as_tensor(a) if isinstance(a, np.ndarray) else a for a in args]
        for place in positions:
            made[place] = torch.as_tensor(made[place]).detach().requires_grad_(True)
        return made

    def gradient(*args: Any) -> tuple[Any, Any]:
        value = f(*args)
        return value, torch.autograd.grad(value, [args[place] for place in positions])

    def plain(*args: Any) -> Any:
        with torch.no_grad():
            return f(*args)

    def arrays(result: Any) -> tuple[float, list[np.ndarray]]:
        return result[0].item(), [g.numpy() for g in result[1]]

    if workload.numpy_boundary:
        return Contender(lambda *args: arrays(gradient(*tensors(args))), problem.values,
                         value=lambda *args: plain(*tensors(args)).item())
    return Contender(gradient, tensors(problem.values), arrays, plain)
