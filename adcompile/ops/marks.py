"""Ops that compute nothing: they tell the transformations something."""

from ..ir.op import Op
from .op import elementwise, float_type, linear, nondifferentiable

stop_gradient: Op = nondifferentiable("stop_gradient", lambda x: x, infer=lambda x: x, code="{0}", cost=0, domain=((-3.0, 3.0),),
                                  why="the user said that this is a constant")
# The value y, of which the user has said that its derivative with respect to x is `slope`.
with_slope: Op = elementwise("with_slope", lambda y, x, slope: y, lambda value, y, x, slope: (1.0, slope, None),
                             infer=lambda y, x, slope: float_type(y, x, slope), code="{0}", cost=0, singular=True)
# The value that the user calls `label`: its cotangent is asked for.
named: Op = linear("named", lambda x, *, label: x, lambda x, *, label: x, {0: lambda ct, x, *, label: ct}, code="{0}", cost=0)
