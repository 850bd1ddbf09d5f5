"""Scalar functions that the `code` of rows calls. Their source is copied into the generated module, so each is plain
Python with `math` and `np` only, may call only functions that its row lists before it, and works on scalars of any width."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def maximum(a: Any, b: Any) -> Any:
    """The larger one; NaN if either is."""
    return a if a >= b or a != a else b


def minimum(a: Any, b: Any) -> Any:
    """The smaller one; NaN if either is."""
    return a if a <= b or a != a else b


def strong_mul(a: float, b: float) -> float:
    """a * b, and 0 where either is 0 whatever the other is."""
    return a * b if a != 0.0 and b != 0.0 else 0.0


def sigmoid(x: float) -> float:
    """1 / (1 + exp(-x)), without overflow."""
    e = math.exp(-abs(x))
    return (1.0 if x >= 0.0 else e) / (1.0 + e)


def logaddexp(a: float, b: float) -> float:
    """log(exp(a) + exp(b)), without overflow."""
    if a == b:
        return a + 0.6931471805599453
    high, low = (a, b) if a > b else (b, a)
    return high + math.log1p(math.exp(low - high))


def xlogy(x: float, y: float) -> float:
    """x * log(y), and 0 at x == 0 unless y is NaN."""
    return 0.0 if x == 0.0 and y == y else x * np.log(y)


def wrap_index(i: int, length: int) -> int:
    """An index counted from the end if negative; `IndexError` outside."""
    if i < -length or i >= length:
        raise IndexError("index out of bounds")
    return i + length if i < 0 else i


def digamma(x: float) -> float:
    """The logarithmic derivative of the gamma function: reflection for negative x, recurrence up to 8, asymptotic series."""
    if x <= 0.0:
        if x == np.floor(x):
            return math.nan if x < 0.0 else math.copysign(math.inf, -x)
        fraction = x - np.floor(x)
        return digamma_positive(1.0 - x) - math.pi / math.tan(math.pi * fraction)
    return digamma_positive(x)


def digamma_positive(x: float) -> float:
    """`digamma` for x > 0; near its root 1.4616... by a Taylor series, where the recurrence would cancel."""
    if x == math.inf or x != x:             # x != x: NaN, in a way that vectorises
        return x
    t = x - 1.4616321449683622
    if abs(t) < 0.02:
        return -9.2412655217294275e-17 + t * (0.9676722454476213 + t * (-0.4427631689835922 + t * (0.2584997656509557 + t * (
            -0.1639427054424066 + t * (0.10782405069126244 + t * (
                -0.07219956125645474 + t * (0.04880428816414313 - t * 0.03316112647)))))))
    shift = 0.0
    while x < 8.0:
        shift -= 1.0 / x
        x += 1.0
    w = 1.0 / (x * x)
    series = w * (1 / 12 - w * (1 / 120 - w * (1 / 252 - w * (1 / 240 - w * (1 / 132 - w * (691 / 32760 - w * (1 / 12)))))))
    return shift + math.log(x) - 0.5 / x - series


def polygamma(x: float, k: int) -> float:
    """The k-th derivative of digamma, k >= 1: recurrence up to k + 12, then the asymptotic series. NaN below -1e4."""
    if x <= 0.0 and x == np.floor(x):
        return math.inf if k % 2 == 1 else math.nan
    if x < -1e4 or x != x:
        return math.nan
    sign = 1.0 if k % 2 == 1 else -1.0
    if x == math.inf:
        return 0.0 * sign
    factorial = math.gamma(k + 1.0)
    total = 0.0
    while x < k + 12.0:
        total += factorial / x**(k + 1)
        x += 1.0
    term = factorial / (k * x**k)                                   # (k-1)! / x**k
    tail = term + 0.5 * k * term / x
    rising = k * (k + 1.0) / (x * x)
    for b, step in ((1 / 6, 2), (-1 / 30, 4), (1 / 42, 6), (-1 / 30, 8), (5 / 66, 10), (-691 / 2730, 12), (7 / 6, 14)):
        factor = rising / (step * (step - 1.0))                     # (2j + k - 1)! / ((2j)! x**(2j + k)) from the last
        term *= factor
        tail += b * term
        rising = (k + step) * (k + step + 1.0) / (x * x)
    return sign * (total + tail)
