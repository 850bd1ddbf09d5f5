"""What an op is: one row of the table. The rows themselves are in `adcompile/ops/`; the IR only reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .builder import current_builder
from .core import Literal, Operand, Value
from .dims import Dim
from .types import DType, Type

# Precedence of generated expressions, Python's own order.
ATOM, POWER, UNARY, PRODUCT, SUM, SHIFT, BIT_AND, BIT_OR, COMPARE, NOT, AND, OR, TERNARY = range(17, 4, -1)


@dataclass(frozen=True, eq=False)
class Op:
    """One primitive. Exactly one of `partials`, `transpose`, `vjp` states its derivative; with none, it has none (`why`).

    * `reference(*arrays, **attributes)`: its meaning in NumPy; Dim attributes arrive as ints.
    * `infer(*types, **attributes) -> Type` (or a tuple of types): its result type; raises on operands that do not fit.
    * `partials(y, *operands) -> tuple`: for elementwise ops, d result / d operand, a number, a Value, or None for an operand
      without derivative. Written with the op functions and Python operators; never multiplies by the cotangent.
    * `transpose[i](ct, *operands, **attributes) -> Value`: for ops linear in operand i (in all of `transpose` jointly if
      `joint`).
    * `vjp(ct, y, *operands, **attributes) -> tuple`, `jvp(tangents, y, *operands, **attributes)`: by hand, with a reason in
      `why`.
    * `code`: for elementwise ops the generated scalar expression, operands as {0}, {1}; binds like `precedence`. (`np.exp`,
      not `math.exp`: Python's own functions raise where IEEE arithmetic gives inf or NaN.)
    * `vector`: the function of ops/vector_math.py that stands for the one in `code` in loops that LLVM vectorises.
    * `support`: plain Python functions (math and numpy only) that `code` calls; their source goes into the generated module.
    """

    name: str
    kind: str                                   # elementwise | linear | rule | nondifferentiable | control
    reference: Callable[..., Any] | None
    infer: Callable[..., Any]
    partials: Callable[..., tuple[Any, ...]] | None = None
    transpose: Mapping[int, Callable[..., Any]] = field(default_factory=dict)
    joint: bool = False
    vjp: Callable[..., tuple[Any, ...]] | None = None
    jvp: Callable[..., Any] | None = None
    code: str | None = None
    precedence: int = ATOM
    vector: str = ""
    support: tuple[Callable[..., Any], ...] = ()
    promotes: bool = False                      # `code` gives float64 for float32 operands: the result is cast back
    cost: float = 1.0                           # time an element takes, in additions: for scheduling
    flops: Callable[..., Any] | None = None     # of (operands, result type, attributes), where it is not one an element
    commutative: bool = False
    associative: bool = False
    identity: float | None = None
    involution: bool = False
    singular: bool = False                      # a partial can be infinite where the value is finite (sqrt at 0)
    masking: bool = False                       # its pullback puts zeros where nothing was selected: strong zeros
    domain: tuple[tuple[float, float], ...] = ()     # one open interval an operand, for the property tests
    edges: tuple[Any, ...] = ()                 # operand values (or tuples of them) where value and partial are tested
    why: str = ""

    @property
    def is_function(self) -> bool:
        """Whether it is a function such as exp, log or sqrt, whose calls are counted apart from arithmetic."""
        return self.kind == "elementwise" and self.cost >= 5 and self.precedence == ATOM

    def work(self, operands: tuple[Operand, ...], result: Type, attributes: Mapping[str, Any]) -> Dim:
        """How many floating point operations it takes; of a function, how many calls. Moves take none, and integers and booleans
        do not count."""
        if not any(x.type.dtype.is_float or x.type.dtype.is_complex for x in operands):
            return Dim.of(0)
        if self.flops is not None:
            return Dim.of(self.flops(operands, result, attributes))
        return elements(result) if self.code is not None and self.kind != "linear" and self.cost else Dim.of(0)

    def __call__(self, *operands: Any, name: str = "", **attributes: Any) -> Any:
        """Emit this op into the current builder; on plain arrays and numbers, compute it with NumPy."""
        if any(isinstance(x, (Value, Literal)) for x in operands) or (not operands):
            return current_builder().emit(self.name, operands, attributes, name=name)
        assert self.reference is not None
        return self.reference(*operands, **attributes)


def elements(type: Type) -> Dim:
    """How many entries an array of this type has."""
    count = Dim.of(1)
    for d in type.dims:
        count = count * d
    return count


TABLE: dict[str, Op] = {}


def register(op: Op) -> Op:
    """Add a row to the table."""
    if op.name in TABLE:
        raise ValueError(f"two rows are named {op.name!r}")
    TABLE[op.name] = op
    return op


def literal_like(number: Any, dtype: DType) -> Literal:
    """A Python number as a literal of the given dtype."""
    if dtype is DType.bool:
        return Literal(bool(number), dtype)
    if dtype.is_integer:
        return Literal(int(number), dtype)
    if dtype.is_complex:
        return Literal(complex(number), dtype)
    return Literal(float(number), dtype)


def operand_dtype(operands: tuple[Any, ...]) -> DType | None:
    """The dtype that plain numbers among the operands take: that of the last non-boolean Value or Literal, else any."""
    found: DType | None = None
    for x in operands:
        if isinstance(x, (Value, Literal)) and (found is None or found is DType.bool):
            found = x.type.dtype
    return found


def as_operands(operands: tuple[Any, ...]) -> tuple[Operand, ...]:
    """Operands with plain numbers turned into literals of the other operands' dtype."""
    dtype = operand_dtype(operands) or DType.f64
    return tuple(x if isinstance(x, (Value, Literal)) else literal_like(x, dtype) for x in operands)
