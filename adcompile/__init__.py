"""Fused value-and-gradient kernels for ordinary NumPy functions.

    import numpy as np
    from adcompile import compile_grad

    @compile_grad
    def loss(w, X, y):
        return np.sum(np.log1p(np.exp(-y * (X @ w))))

    value, grad = loss(w, X, y)
"""

from .api import CompiledGrad, CompiledValue, compile_grad, compile_value, grad, value_and_grad
from .capture.marks import detach, named, no_grad, stop_gradient
from .check import check_grad
from .errors import (
    AdcompileError,
    CaptureError,
    DifferentiationError,
    GuardError,
    ShapeError,
    UnsupportedOp,
    VerifyError,
)
from .version import __version__ as __version__

__all__ = [
    "AdcompileError", "CaptureError", "CompiledGrad", "CompiledValue", "DifferentiationError", "GuardError", "ShapeError",
    "UnsupportedOp", "VerifyError", "check_grad", "compile_grad", "compile_value", "detach", "grad", "named", "no_grad",
    "stop_gradient", "value_and_grad",
]
