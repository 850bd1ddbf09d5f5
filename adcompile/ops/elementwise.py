"""Elementwise ops: one row each."""

from __future__ import annotations

import numpy as np

from ..ir.op import PRODUCT, SUM
from .op import elementwise

add = elementwise("add", np.add, lambda y, a, b: (1.0, 1.0), code="{0} + {1}", precedence=SUM, commutative=True, associative=True, identity=0.0)
mul = elementwise("mul", np.multiply, lambda y, a, b: (b, a), code="{0} * {1}", precedence=PRODUCT, commutative=True, associative=True, identity=1.0)
exp = elementwise("exp", np.exp, lambda y, x: (y,), code="math.exp({0})", cost=20, domain=((-5.0, 5.0),), edges=(0.0, 700.0, -745.0))
