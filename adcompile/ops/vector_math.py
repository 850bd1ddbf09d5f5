"""Elementary functions without branches or calls, so that LLVM does several elements of a loop at once: about a nanosecond an
element, where a call of libm costs four to twenty.

The column `vector` of the op table says which op has one; `emit` copies the source of those that a kernel uses in such loops
into the generated module. A function runs while numba compiles a call of it, on `Lane`s in place of numbers, and writes LLVM
instructions. (As a numba function, each would cost six times the time to compile, and inherit the fast-math flags of its
caller, which take compensated sums apart.) In plain Python, the function that `@vector` names stands in.

Results are within an ulp or so over the whole range, with IEEE's results at infinities, NaN and signed zeros; float32 is computed
in double precision with shorter polynomials. Polynomials are near-minimax fits, highest power first.

A new one is written below, with the name of its op; tests/test_vector_math.py takes it from there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numba as nb
import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

DOUBLE, INTEGER = ir.DoubleType(), ir.IntType(64)
CONFIG: Any = nb.config
EXACT = ("afn",)        # numba adds the kernel's fast-math flags to instructions that have none: these must keep their order


class NoFlags(set):
    """The flags of a call that is to have none: numba adds the kernel's."""

    def add(self, flag: Any) -> None:
        """Leave it out."""


def operation(double: str, integer: str = "", *, swapped: bool = False) -> Callable[[Lane, Any], Lane]:
    """An operator of `Lane`: the instruction for doubles, and that for integers."""
    def write(x: Lane, y: Any) -> Lane:
        operands = (y, x) if swapped else (x, y)
        return x.write(double, *operands, flags=EXACT) if x.value.type == DOUBLE else x.write(integer, *operands)
    return write


def comparison(sign: str) -> Callable[[Lane, Any], Lane]:
    """A comparison of doubles, false if either is NaN."""
    return lambda x, y: x.write("fcmp_ordered", x, y, before=(sign,), flags=EXACT)


class Lane:
    """A double, or an integer of 64 bits, in the code that is being written. `single`: float32 is enough."""

    def __init__(self, builder: Any, value: Any, single: bool) -> None:
        self.builder, self.value, self.single = builder, value, single

    def write(self, name: str, *operands: Any, before: tuple[str, ...] = (), **options: Any) -> Lane:
        """An instruction; plain numbers are of this lane's type."""
        values = [x.value if isinstance(x, Lane) else ir.Constant(self.value.type, x) for x in operands]
        return Lane(self.builder, getattr(self.builder, name)(*before, *values, **options), self.single)

    __add__, __mul__ = operation("fadd", "add"), operation("fmul", "mul")
    __sub__, __rsub__ = operation("fsub", "sub"), operation("fsub", "sub", swapped=True)
    __truediv__, __rtruediv__ = operation("fdiv"), operation("fdiv", swapped=True)
    __and__, __or__, __xor__ = operation("", "and_"), operation("", "or_"), operation("", "xor")
    __lshift__, __rshift__ = operation("", "shl"), operation("", "lshr")
    __lt__, __gt__ = comparison("<"), comparison(">")


def vector(plain: Any) -> Callable[[Callable[..., Lane]], Any]:
    """A function of float64 or float32 for numba code, from one that writes it; `plain` stands in for it in plain Python."""
    def made(function: Callable[..., Lane]) -> Any:
        def typed_code(*types: Any) -> Any:
            single = all(type == nb.float32 for type in types)
            number = nb.float32 if single else nb.float64

            def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                lanes = [Lane(builder, builder.fpext(x, DOUBLE) if single else x, single) for x in args]
                result = function(*lanes).value
                return builder.fptrunc(result, ir.FloatType()) if single else result

            return number(*[number] * len(types)), code

        one, two = (lambda context, x: typed_code(x)), (lambda context, x, y: typed_code(x, y))
        return plain if CONFIG.DISABLE_JIT else intrinsic(one if function.__code__.co_argcount == 1 else two)
    return made


# ---------------------------------------------------------------------------------------------------- what functions are made of
def fma(a: Any, b: Any, c: Any) -> Lane:
    """a * b + c, rounded once."""
    lanes: list[Lane] = [x for x in (a, b, c) if isinstance(x, Lane)]
    result = lanes[0].write("fma", a, b, c)
    result.value.fastmath = NoFlags()
    return result


def polynomial(x: Lane, coefficients: tuple[float, ...], single: int) -> Any:
    """Horner's rule; for float32 with the last `single` coefficients."""
    terms: list[Any] = [*(coefficients[-single:] if x.single else coefficients)]
    y = terms[0]
    for c in terms[1:]:
        y = fma(y, x, c)
    return y


def select(condition: Lane, a: Any, b: Any) -> Lane:
    """a where the condition holds, else b."""
    values = [x.value if isinstance(x, Lane) else ir.Constant(DOUBLE, x) for x in (a, b)]
    return Lane(condition.builder, condition.builder.select(condition.value, *values), condition.single)


def same(a: Lane, b: Any) -> Lane:
    """Whether two numbers are equal."""
    return a.write("fcmp_ordered", a, b, before=("==",), flags=EXACT)


def clip(x: Lane, low: float, high: float) -> Lane:
    """x between two numbers; NaN stays NaN."""
    x = select(x > high, high, x)
    return select(x < low, low, x)


def as_bits(x: Lane) -> Lane:
    """The bits of a double."""
    return Lane(x.builder, x.builder.bitcast(x.value, INTEGER), x.single)


def as_double(x: Lane) -> Lane:
    """The double that has these bits."""
    return Lane(x.builder, x.builder.bitcast(x.value, DOUBLE), x.single)


def called(name: str, x: Lane) -> Lane:
    """An instruction of the processor that LLVM has a function for."""
    function = x.builder.module.declare_intrinsic(name, [DOUBLE])
    return Lane(x.builder, x.builder.call(function, [x.value]), x.single)


def magnitude(x: Lane) -> Lane:
    """The absolute value."""
    return called("llvm.fabs", x)


def with_sign(y: Lane, x: Lane) -> Lane:
    """y >= 0 with the sign of x."""
    return as_double(as_bits(y) | as_bits(x) & SIGN)


SIGN = -2**63           # the bit of the sign


def nearest(x: Lane) -> Lane:
    """The nearest whole number."""
    return called("llvm.rint", x)


SHIFT, ONE = 1.5 * 2.0**52, 1023 << 52      # SHIFT + x rounds x to a whole number, in the lowest bits; ONE: the bits of 1.0


def power_of_two(k: Lane) -> Lane:
    """2**n from SHIFT + n, for abs(n) < 1023."""
    return as_double((as_bits(k) << 52) + ONE)


def two_sum(a: Lane, b: Any) -> tuple[Lane, Lane]:
    """a + b as a rounded sum and what that has lost."""
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


def two_product(a: Lane, b: Any) -> tuple[Lane, Lane]:
    """a * b as a rounded product and what that has lost."""
    product = a * b
    return product, fma(a, b, 0.0 - product)


# ---------------------------------------------------------------------------------------------------- exponentials
LOG2E = 1.4426950408889634
LN2_HI, LN2_LO = 0.6931471803691238, 1.9082149292705877e-10     # a whole number times LN2_HI is exact
EXP = (2.50098493854662e-08, 2.763045258608721e-07, 2.7557555195299496e-06, 2.480149245723774e-05, 0.00019841269541754175,
       0.0013888888944339577, 0.008333333333478115, 0.041666666666526964, 0.16666666666666438, 0.5000000000000011, 1.0)


def exp_times(x: Lane, scale: float) -> Lane:
    """e**x * 2**scale: e**r from a polynomial, |r| <= log(2) / 2, times 2**n."""
    x = clip(x, -746.0, 711.0)
    shifted = fma(x, LOG2E, SHIFT)
    n = shifted - SHIFT
    r = fma(n, -LN2_LO, fma(n, -LN2_HI, x))
    return scaled(fma(polynomial(r, EXP, 7), r, 1.0), shifted, scale)


def scaled(p: Lane, shifted: Lane, scale: float = 0.0) -> Lane:
    """p * 2**(n + scale) from SHIFT + n: in two factors, since 2**n may be no double and the result subnormal."""
    half = fma(shifted - SHIFT, 0.5, SHIFT)
    return p * power_of_two(half) * power_of_two(shifted - (half - SHIFT) + scale)


@vector(np.exp)
def exp(x: Lane) -> Lane:
    """e**x."""
    return exp_times(x, 0.0)


EXP2 = (4.450477620863533e-10, 7.073769528077948e-09, 1.0178083160485007e-07, 1.3215435378099202e-06, 1.52527338144898e-05,
        0.0001540353045687666, 0.001333355814637125, 0.009618129107594357, 0.0555041086648223, 0.2402265069591013,
        0.6931471805599453, 1.0)


@vector(np.exp2)
def exp2(x: Lane) -> Lane:
    """2**x, as `exp`."""
    x = clip(x, -1076.0, 1025.0)
    shifted = x + SHIFT
    return scaled(polynomial(x - (shifted - SHIFT), EXP2, 8), shifted)


@vector(np.expm1)
def expm1(x: Lane) -> Lane:
    """e**x - 1 = 2**n * (e**r - 1) + (2**n - 1); half of it, since 2**1024 is no double."""
    clipped = clip(x, -50.0, 709.9)
    shifted = fma(clipped, LOG2E, SHIFT)
    n = shifted - SHIFT
    high = fma(n, -LN2_HI, clipped)
    r = fma(n, -LN2_LO, high)
    rest = fma(n, -LN2_LO, high - r)                # what r has lost
    p = fma(r * r, polynomial(r, EXP[:-1], 6), rest) + r
    half = power_of_two(shifted - 1.0)
    y = fma(half, p, half - 0.5) * 2.0
    return select(magnitude(x) < 1e-17, x, y)


@vector(lambda x: (1.0 if x >= 0.0 else np.exp(x)) / (1.0 + np.exp(-abs(x))))
def sigmoid(x: Lane) -> Lane:
    """1 / (1 + e**-x), without overflow."""
    e = exp_times(magnitude(x) * -1.0, 0.0)
    return select(x < 0.0, e, 1.0) / (e + 1.0)


# ---------------------------------------------------------------------------------------------------- hyperbolic functions
@vector(np.cosh)
def cosh(x: Lane) -> Lane:
    """(e**x + e**-x) / 2."""
    half = exp_times(magnitude(x), -1.0)
    return half + 0.25 / half


SINH = (7.766323179549737e-13, 1.6056987598665815e-10, 2.5052127004863133e-08, 2.7557319129578476e-06, 0.00019841269841533178,
        0.008333333333332969, 0.16666666666666669)


@vector(np.sinh)
def sinh(x: Lane) -> Lane:
    """(e**x - e**-x) / 2, near 0 from a polynomial."""
    size = magnitude(x)
    half = exp_times(size, -1.0)
    square = x * x
    near = fma(x * square, polynomial(square, SINH, 5), x)
    return select(size < 1.0, near, with_sign(half - 0.25 / half, x))


TANH_P = (-0.00019864701513385674, -0.020486793849551443, -0.33333333333333165)
TANH_Q = (0.0002059651010934394, 0.023275331761814733, 0.4614603815484905, 1.0)


@vector(np.tanh)
def tanh(x: Lane) -> Lane:
    """1 - 2 / (e**2x + 1), near 0 x + x**3 P(x**2) / Q(x**2): with the same division, and the exponential of cosh."""
    size = magnitude(x)
    half = exp_times(size, -1.0)
    square = x * x
    near = size < 0.8
    above = select(near, size * square * polynomial(square, TANH_P, 3), -2.0)
    below = select(near, polynomial(square, TANH_Q, 4), fma(half * 4.0, half, 1.0))
    return with_sign(select(near, size, 1.0) + above / below, x)


# ---------------------------------------------------------------------------------------------------- logarithms
ROOT_HALF = 0x3FE6A09E667F3BCD                  # the bits of the square root of 1/2
LOG = (0.1479774057319922, 0.1531387840078295, 0.18183570786209866, 0.22222198453899014, 0.285714287435063, 0.39999999999409797,
       0.6666666666666735)


def split(x: Lane) -> tuple[Lane, Lane]:
    """k and m with x = 2**k * m, m between the square roots of 1/2 and 2, for normal x > 0."""
    bits = as_bits(x) + (ONE - ROOT_HALF)
    k = as_double(bits >> 52 | 0x433 << 52) - (2.0**52 + 1023.0)
    return k, as_double((bits & 2**52 - 1) + ROOT_HALF)


def split_all(x: Lane) -> tuple[Lane, Lane]:
    """`split` for subnormal x too."""
    small = x < 2.2250738585072014e-308
    k, m = split(select(small, x * 2.0**54, x))
    return select(small, k - 54.0, k), m


def log_rest(f: Lane, half: Lane) -> Lane:
    """log(1 + f) - f + half, half = f**2 / 2: a series in f / (2 + f)."""
    s = f / (f + 2.0)
    square = s * s
    return s * fma(square, polynomial(square, LOG, 4), half)


def log_edges(x: Lane, y: Lane) -> Lane:
    """y = log(x), or what the logarithm is at infinity, NaN, zero and below."""
    return select(x < math.inf, select(x > 0.0, y, select(x < 0.0, math.nan, -math.inf)), x)


def log_lane(x: Lane) -> Lane:
    """`log`: k log(2) + log(m)."""
    k, m = split_all(x)
    f = m - 1.0
    half = f * 0.5 * f
    rest = fma(k, LN2_LO, log_rest(f, half))
    return log_edges(x, fma(k, LN2_HI, f - (half - rest)))


@vector(np.log)
def log(x: Lane) -> Lane:
    """The natural logarithm."""
    return log_lane(x)


def log1p_lane(x: Lane) -> Lane:
    """`log1p`: the logarithm of u = 1 + x, and what u has lost, by u."""
    u = x + 1.0
    back = u - 1.0
    lost = (x - back) + (1.0 - (u - back))
    inverse = as_double((2046 << 52) - (as_bits(u) & 2047 << 52))         # a power of 2: 1 <= u * inverse < 2
    lost = lost * inverse * polynomial(u * inverse, (0.33, -1.5, 2.17), 3)         # roughly 1 / (u * inverse)
    k, m = split(u)
    near = k * k < 0.5
    f = select(near, x, m - 1.0)
    half = f * 0.5 * f
    rest = fma(k, LN2_LO, select(near, 0.0, lost)) + log_rest(f, half)
    y = fma(k, LN2_HI, f - (half - rest))
    return select(magnitude(x) < 1e-17, x, log_edges(u, y))


@vector(np.log1p)
def log1p(x: Lane) -> Lane:
    """log(1 + x)."""
    return log1p_lane(x)


@vector(np.logaddexp)
def logaddexp(a: Lane, b: Lane) -> Lane:
    """log(e**a + e**b), without overflow."""
    larger = a > b
    high, low = select(larger, a, b), select(larger, b, a)
    return select(same(a, b), a + 0.6931471805599453, high + log1p_lane(exp_times(low - high, 0.0)))


@vector(lambda x, y: 0.0 if x == 0.0 and y == y else x * np.log(y))
def xlogy(x: Lane, y: Lane) -> Lane:
    """x * log(y), and 0 at x == 0 unless y is NaN."""
    return select(same(x, 0.0) & same(y, y), 0.0, x * log_lane(y))


def log_parts(m: Lane) -> tuple[Lane, Lane]:
    """log(m) as a sum of two doubles."""
    f = m - 1.0
    half = f * 0.5 * f
    high = f - half
    return high, (f - high) - half + log_rest(f, half)


@vector(np.log2)
def log2(x: Lane) -> Lane:
    """The logarithm to base 2; exact at powers of 2."""
    k, m = split_all(x)
    high, low = log_parts(m)
    part = high * LOG2E
    y = k + part
    low = fma(high, LOG2E, 0.0 - part) + fma(high, 2.0355273740931033e-17, low * LOG2E) + ((k - y) + part)
    return log_edges(x, y + low)


@vector(np.log10)
def log10(x: Lane) -> Lane:
    """The logarithm to base 10."""
    k, m = split_all(x)
    high, low = log_parts(m)
    part, whole = high * 0.4342944819032518, k * 0.301029995663157
    y = whole + part
    low = fma(high, 0.4342944819032518, 0.0 - part) + fma(high, 1.098319650216765e-17, low * 0.4342944819032518)
    return log_edges(x, y + fma(k, 8.241712586023572e-13, low + ((whole - y) + part)))


# ---------------------------------------------------------------------------------------------------- trigonometric functions
TWO_OVER_PI = int(          # times 2**1248
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e006492eea09d1921cfe1deb1c"
    "b129a73ee88235f52ebb4484e99c7026b45f7e413991d639835339f49c845f8bbdf9283b1ff897ffde05980fef2f118b5a0a6d1f"
    "6d367ecf27cb09b74f463f669e5fea2d7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d0856033046fc7b6babf0cfbc20", 16)
PI_PARTS = tuple(           # for row j, |x| < 2**(16 j + 40): four times 53 bits of 2/pi, without those that give whole turns
    math.ldexp(TWO_OVER_PI >> 1248 - last & 2**53 - 1, 16 * j - last)
    for j in range(63) for last in range(max(16 * j - 30, 0) + 53, max(16 * j - 30, 0) + 213, 53))
SIN = (1.5896802195976216e-10, -2.5050758541469705e-08, 2.7557313697330544e-06, -0.00019841269829834726, 0.00833333333332247,
       -0.16666666666666632)
COS = (-1.1359931149897642e-11, 2.08757293659214e-09, -2.7557314402594943e-07, 2.480158728967902e-05, -0.0013888888888874485,
       0.0416666666666666)


def lookup(table: tuple[float, ...], index: Lane) -> Lane:
    """An element of a table."""
    values = ir.Constant(ir.ArrayType(DOUBLE, len(table)), table)
    array = cgutils.global_constant(index.builder.module, "table", values)
    place = index.builder.gep(array, [ir.Constant(INTEGER, 0), index.value], inbounds=True)
    return Lane(index.builder, index.builder.load(place), index.single)


def within_turn(quarters: Lane) -> Lane:
    """A number of quarter turns without whole turns."""
    return fma(nearest(quarters * 0.25), -4.0, quarters)


def reduced(x: Lane) -> tuple[Lane, Lane, Lane]:
    """The angle from the nearest quarter turn, in two parts, and an integer whose last bits are the number of quarter turns.
    As Payne and Hanek do: of x * 2/pi, only the bits around the point are computed."""
    row = (as_bits(select(magnitude(x) < 2.0**40, 2.0**24, magnitude(x))) >> 52) - 1047 >> 4
    x = x * as_double((row << 56) * -1 + ONE)
    parts = [lookup(PI_PARTS, (row << 2) + k) for k in range(4)]
    (a, a_low), (b, b_low), (c, c_low) = (two_product(x, part) for part in parts[:3])
    if x.single:
        total = within_turn(a) + (within_turn(a_low) + within_turn(b))
        shifted = total + SHIFT
        angle = total - (shifted - SHIFT) + (b_low + c)
        return angle * 1.5707963267948966, angle * 0.0, as_bits(shifted)
    total, lost_1 = two_sum(within_turn(a), within_turn(a_low))
    total, lost_2 = two_sum(total, within_turn(b))
    shifted = total + SHIFT
    after, lost_3 = two_sum(b_low, c)
    angle, lost_4 = two_sum(total - (shifted - SHIFT), after)
    angle, lost_5 = two_sum(angle, lost_1 + lost_2)
    angle, low = two_sum(angle, lost_5 + (lost_4 + (lost_3 + fma(x, parts[3], c_low))))
    high, lost = two_product(angle, 1.5707963267948966)
    return high, lost + fma(angle, 6.123233995736766e-17, low * 1.5707963267948966), as_bits(shifted)


def sine(r: Lane, low: Lane) -> Lane:
    """sin(r + low), |r| <= pi / 4."""
    square = r * r
    return r + fma(r * square, polynomial(square, SIN, 4), low * fma(square, -0.5, 1.0))


def cosine(r: Lane, low: Lane) -> Lane:
    """cos(r + low), |r| <= pi / 4."""
    square = r * r
    half = square * 0.5
    first = 1.0 - half
    return first + (((1.0 - first) - half) + fma(square * square, polynomial(square, COS, 4), r * low * -1.0))


def is_odd(quarters: Lane) -> Lane:
    """Whether an integer is odd."""
    return as_double(quarters << 62 & 1 << 62) > 1.0


def turned(y: Lane, quarters: Lane) -> Lane:
    """y, or -y in the third and fourth quarter of a turn."""
    return as_double(as_bits(y) ^ (quarters & 2) << 62)


@vector(np.sin)
def sin(x: Lane) -> Lane:
    """The sine."""
    r, low, quarters = reduced(x)
    y = turned(select(is_odd(quarters), cosine(r, low), sine(r, low)), quarters)
    return select(magnitude(x) < 1e-8, x, y)


@vector(np.cos)
def cos(x: Lane) -> Lane:
    """The cosine."""
    r, low, quarters = reduced(x)
    return turned(select(is_odd(quarters), sine(r, low), cosine(r, low)), quarters + 1)


@vector(np.tan)
def tan(x: Lane) -> Lane:
    """The tangent."""
    r, low, quarters = reduced(x)
    odd, s, c = is_odd(quarters), sine(r, low), cosine(r, low)
    return select(magnitude(x) < 1e-8, x, select(odd, 0.0 - c, s) / select(odd, s, c))


ATAN = (-0.017908644087159066, 0.0380662265480421, -0.05039384757500873, 0.05847910381335397, -0.06663107409861084,
        0.07692060551964544, -0.09090897779058477, 0.11111110784288535, -0.14285714280215006, 0.1999999999995379,
        -0.333333333333332)


@vector(np.arctan)
def atan(x: Lane) -> Lane:
    """The arc tangent: from 0, pi / 4 or pi / 2, whichever is nearest."""
    size = magnitude(x)
    far, middle = size > 2.414213562373095, size > 0.4142135623730951
    t = select(far, -1.0, select(middle, size - 1.0, size)) / select(far, size, select(middle, size + 1.0, 1.0))
    start = select(far, 1.5707963267948966, select(middle, 0.7853981633974483, 0.0))
    low = select(far, 6.123233995736766e-17, select(middle, 3.061616997868383e-17, 0.0))
    square = t * t
    return with_sign(start + (t + fma(t * square, polynomial(square, ATAN, 8), low)), x)


# ---------------------------------------------------------------------------------------------------- error function
ERF = (-8.705020624667404e-10, 1.4150654120149644e-08, -1.6296802823286553e-07, 1.6457693370555739e-06, -1.4925480822795406e-05,
       0.00012055329669298849, -0.0008548327024483365, 0.005223977627015477, -0.02686617064547085, 0.11283791670958233,
       -0.3761263890318387, 0.1283791670955126)
ERF_FAR = (-12517.651543440055, 26377.70599003208, -20838.393659736004, 6641.1139462505735, -278.6566622038449,
           -332.7399730985062, 278.7699093884507, -18.88079619248526, 20.203423778773033, 4.039599131688693, 1.7420934262481251,
           0.5622686130188319, 3.361690122789593e-05)
ERFC = (-8.426880906912557e-09, -8.176762924422109e-09, 1.0152513062136413e-07, 5.5513808892927854e-08, -8.200472979626618e-07,
        3.135325101007682e-07, 5.709093863919555e-06, -1.1234178301185929e-05, -2.4400291602488558e-05, 0.00015062638097628628,
        -0.00019925600539713058, -0.0007577744465736195, 0.005031969785461492, -0.016197733880675465, 0.037167515565808294,
        -0.0663303658280665, 0.09373283499621797, -0.101039066035571, 0.0680970542547627, 0.015379652102606257,
        -0.13962111684056316, 1.2329951186255526)


def erfc_far(x: Lane) -> Lane:
    """erfc(x) for x > 0.8, as e**-x**2 * P(t) / (1 + 2 x), t = (x - 4) / (x + 4), with what each factor has lost."""
    x = clip(x, 0.0, 28.0)
    square, square_low = two_product(x, x)
    shifted = fma(square, -LOG2E, SHIFT)
    n = shifted - SHIFT
    high = fma(n, -LN2_HI, 0.0 - square)
    r = fma(n, -LN2_LO, high)
    e = fma(r * r, polynomial(r, EXP[:-1], 7), fma(n, -LN2_LO, high - r)) + r + 1.0
    t, below = (x - 4.0) / (x + 4.0), x * 2.0 + 1.0
    rest = polynomial(t, ERFC[:-1], 21)
    p = fma(t, rest, ERFC[-1])
    p_low = fma(t, rest, ERFC[-1] - p)
    inverse = 1.0 / below
    ratio = p * inverse
    missing = fma(ratio, 0.0 - below, p) + (p_low - fma(ratio, 1.0 - (below - x * 2.0), p * square_low))
    return scaled(e * fma(missing, inverse, ratio), shifted)


@vector(math.erf)
def erf(x: Lane) -> Lane:
    """The error function: near 0 x + x P(x**2), else 1 - e**-x**2 P(1 / (3 + x))."""
    size = clip(magnitude(x), 0.0, 6.0)
    far = exp_times(0.0 - size * size, 0.0) * polynomial(1.0 / (size + 3.0), ERF_FAR, 13)
    return select(size < 0.9, fma(x, polynomial(x * x, ERF, 9), x), with_sign(1.0 - far, x))


@vector(math.erfc)
def erfc(x: Lane) -> Lane:
    """1 - erf(x)."""
    far = erfc_far(magnitude(x))
    near = fma(0.0 - x, polynomial(x * x, ERF, 9), 1.0 - x)
    return select(magnitude(x) < 0.9, near, select(x < 0.0, 2.0 - far, far))


# ---------------------------------------------------------------------------------------------------- roots and powers
CBRT = (0.026957636843662605, -0.17957261968688956, 0.5110016144338425, -0.8361093713700944, 1.056036510018503,
        0.42168523952777687)


@vector(np.cbrt)
def cbrt(x: Lane) -> Lane:
    """The cube root: from a polynomial, with one step of Halley's iteration."""
    size = magnitude(x)
    k, m = split_all(size)
    shifted = fma(k - 1.0, 1 / 3, SHIFT)
    rest = fma(shifted - SHIFT, -3.0, k)                                   # 0, 1 or 2
    v = m * select(rest > 1.5, 4.0, select(rest > 0.5, 2.0, 1.0))
    y = polynomial(m, CBRT, 6) * select(rest > 1.5, 1.5874010519681996, select(rest > 0.5, 1.2599210498948732, 1.0))
    square, low = two_product(y, y)
    over = fma(square, y, 0.0 - v) + low * y                               # y**3 - v
    root = y - y * over / fma(v, 3.0, over * 2.0)
    whole = with_sign(root * power_of_two(shifted), x)
    return select(same(x * 0.5, x), x, select(size < math.inf, whole, x))


POW = (0.1319824258724138, 0.13256615731649196, 0.15386765748351466, 0.1818178419240575, 0.2222222252178954, 0.2857142857009015,
       0.4000000000000227)


def log2_pair(x: Lane) -> tuple[Lane, Lane]:
    """log2(x) as a sum of two doubles, 2**-65 of it exact."""
    k, m = split_all(x)
    f, d = m - 1.0, m + 1.0
    inverse = 1.0 / d
    s = f * inverse
    s_low = (fma(0.0 - s, d, f) - s * (m - (d - 1.0))) * inverse
    square, square_low = two_product(s, s)
    square_low = fma(s * 2.0, s_low, square_low)
    # log(m) = 2 s (1 + s**2 / 3 + tail)
    third, third_low = two_product(square, 0.3333333333333333)
    tail = polynomial(square, POW, 7) * 0.5 * square * square
    series, tail_low = two_sum(third, tail)
    series, series_low = two_sum(series, 1.0)
    third_low = fma(square, 1.850371707708594e-17, fma(square_low, 0.3333333333333333, third_low))
    series_low = series_low + (tail_low + third_low)
    a, a_low = two_product(s * 2.0, series)
    a_low = fma(s * 2.0, series_low, fma(s_low * 2.0, series, a_low))
    b, b_low = two_product(a, LOG2E)
    b_low = fma(a, 2.0355273740931033e-17, fma(a_low, LOG2E, b_low))
    total, lost = two_sum(k, b)
    return total, lost + b_low


@vector(np.power)
def pow(x: Lane, y: Lane) -> Lane:
    """x**y = 2**(y log2(x)), with the sign and the special values of IEEE."""
    size, y_finite = magnitude(x), clip(y, -1e300, 1e300)
    high, low = log2_pair(size)
    high = select(same(size, 0.0), -math.inf, select(size < math.inf, high, size))
    power, power_low = two_product(y_finite, high)
    power_low = select(magnitude(power) < 1100.0, fma(y_finite, low, power_low), 0.0)
    power = clip(power, -1100.0, 1100.0)
    shifted = power + SHIFT
    value = scaled(polynomial(power - (shifted - SHIFT) + power_low, EXP2, 12), shifted)
    whole, even = same(nearest(y), y), same(nearest(y * 0.5), y * 0.5)
    value = select(x < 0.0, select(whole, value, select(x > -math.inf, math.nan, value)), value)
    value = select(even, value, as_double(as_bits(value) ^ (as_bits(select(whole, x, 0.0)) & SIGN)))
    return select(same(y, 0.0), 1.0, select(same(x, 1.0), 1.0, value))
