"""Special functions: elementwise rows that NumPy has no ufunc for."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.core import Literal, Operand
from ..ir.op import Op
from ..ir.types import DType
from . import support
from .elementwise import INF, NAN, POSITIVE, REAL, and_, eq, exp, log, select
from .op import elementwise, float_type, number, plus, power_type


def over_arrays(scalar: Callable[..., float]) -> Callable[..., Any]:
    """A scalar function applied entry by entry, in the dtype of the first operand."""
    def apply(*operands: Any) -> Any:
        first = np.asarray(operands[0])
        arrays = np.broadcast_arrays(*operands)
        entries = [scalar(*(x.item() for x in entry)) for entry in zip(*(a.flat for a in arrays), strict=True)]
        return np.array(entries, dtype=first.dtype).reshape(arrays[0].shape)

    return apply


def lgamma_at(x: float) -> float:
    """log |gamma(x)|, inf at the poles."""
    return math.inf if x <= 0 and x == math.floor(x) or math.isinf(x) else math.lgamma(x)


def xlogy_reference(x: Any, y: Any) -> Any:
    """x * log(y), and 0 at x == 0 unless y is NaN."""
    return np.where((x == 0) & ~np.isnan(y), np.zeros_like(x), x * np.log(y))


def xlogy_partials(y: Operand, a: Operand, b: Operand) -> tuple[Any, Any]:
    """Of a * log(b): log(b), and a / b, which is 0 at a == b == 0."""
    return log(b), select(and_(eq(a, 0.0), eq(b, 0.0)), number(0.0, a), a / b)


ROOT_PI = math.sqrt(math.pi)
erf: Op = elementwise("erf", over_arrays(math.erf), lambda y, x: (2.0 / ROOT_PI * exp(-(x * x)),),
                      code="math.erf({0})", vector="erf", cost=30,
                      domain=(REAL,), edges=(0.0, 6.0, -6.0, 30.0, INF, -INF, NAN))
erfc: Op = elementwise("erfc", over_arrays(math.erfc), lambda y, x: (-2.0 / ROOT_PI * exp(-(x * x)),),
                       code="math.erfc({0})", vector="erfc",
                       cost=30, domain=(REAL,), edges=(0.0, 6.0, -6.0, 26.0, INF, -INF, NAN))
lgamma: Op = elementwise("lgamma", over_arrays(lgamma_at), lambda y, x: (digamma(x),), code="math.lgamma({0})", cost=50,
                         domain=(POSITIVE,), edges=(1.0, 2.0, 0.5, -0.5, 1e-10, 1e10, 0.0, -1.0, INF))
digamma: Op = elementwise("digamma", over_arrays(support.digamma), lambda y, x: (polygamma(x, Literal(1, DType.i64)),),
                          code="digamma({0})", cost=60, support=(support.digamma_positive, support.digamma), promotes=True,
                          domain=(POSITIVE,), edges=(1.0, 1.4616321449683622, -0.5, -10.25, 1e-10, 1e10, INF, -1.0))
polygamma: Op = elementwise("polygamma", over_arrays(support.polygamma), lambda y, x, k: (polygamma(x, plus(k, 1)), None),
                            infer=lambda x, k: power_type(float_type(x), k), code="polygamma({0}, {1})",
                            support=(support.polygamma,), promotes=True, cost=100, domain=(POSITIVE, (0.5, 3.5)),
                            edges=((1.0, 1), (-0.5, 1), (100.0, 2), (1e-3, 3)))
xlogy: Op = elementwise("xlogy", xlogy_reference, xlogy_partials,
                        code="xlogy({0}, {1})", vector="xlogy", support=(support.xlogy,), promotes=True,
                        cost=25, singular=True, domain=(REAL, POSITIVE),
                        edges=((0.0, 0.0), (0.0, 1.0), (0.0, NAN), (1.0, 0.0), (2.0, 3.0)))
