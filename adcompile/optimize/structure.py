"""Rules for the ops that move, repeat and add up entries: broadcast, reshape, transpose, slice, pad, reductions, contract."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir.core import Literal, Operand, Operation, Value
from ..ir.dims import Dim
from ..ir.op import TABLE, literal_like
from ..ir.types import DType
from .rewrite import EXACT, REASSOCIATES, SIGN_OF_ZERO, Rewriter, StructuralRule

POINTWISE_KINDS = ("elementwise", "nondifferentiable")
ONE = Dim.of(1)


def emit(driver: Rewriter, op: str, *operands: Operand, **attributes: Any) -> Operand:
    """Emit through the driver's rules."""
    result: Operand = driver.emit(op, operands, attributes)
    return result


def defined_by(driver: Rewriter, x: Operand, op: str) -> Operation | None:
    """The operation that defines x, if it is this op."""
    definition = driver.definition(x)
    return definition if definition is not None and definition.op == op else None


def same_dims(operation: Operation) -> bool:
    """Whether the result has the dims of operand 0."""
    return operation.operands[0].type.dims == operation.result.type.dims


# ------------------------------------------------------------------------------------------------- broadcast
def broadcast_nothing(driver: Rewriter, o: Operation) -> Operand | None:
    """broadcast(x) of x's own dims is x."""
    (x,) = o.operands
    return x if isinstance(x, Value) and x.type.dims == o.attributes["dims"] else None


def broadcast_broadcast(driver: Rewriter, o: Operation) -> Operand | None:
    """broadcast(broadcast(x)) is one broadcast."""
    inner = defined_by(driver, o.operands[0], "broadcast")
    if inner is None:
        return None
    axes = tuple(o.attributes["axes"][a] for a in inner.attributes["axes"])
    return emit(driver, "broadcast", inner.operands[0], dims=o.attributes["dims"], axes=axes)


def broadcast_literals(driver: Rewriter, o: Operation) -> Operand | None:
    """A pointwise op takes a broadcast literal as the literal; on nothing but literals it is a broadcast literal."""
    if not is_pointwise(o):
        return None
    operands = tuple(spread_literal(driver, x) or x for x in o.operands)
    if all(isinstance(x, Literal) for x in operands):
        scalar = emit(driver, o.op, *operands, **o.attributes)
        return emit(driver, "broadcast", scalar, dims=o.result.type.dims, axes=()) if o.result.type.dims else scalar
    if all(new is old for new, old in zip(operands, o.operands, strict=True)):
        return None
    return emit(driver, o.op, *operands, **o.attributes)


def spread_literal(driver: Rewriter, x: Operand) -> Literal | None:
    """The literal that x is a broadcast of."""
    definition = defined_by(driver, x, "broadcast")
    if definition is not None and isinstance(definition.operands[0], Literal):
        return definition.operands[0]
    return None


def pointwise_of_broadcasts(driver: Rewriter, o: Operation) -> Operand | None:
    """A pointwise op of equally broadcast operands is the broadcast of the op on the small operands."""
    if not is_pointwise(o) or not o.result.type.dims:
        return None
    definitions = [defined_by(driver, x, "broadcast") for x in o.operands if isinstance(x, Value)]
    first = definitions[0] if definitions else None
    if first is None or any(d is None or d.attributes != first.attributes for d in definitions):
        return None
    small = [x if isinstance(x, Literal) else driver.definitions[x].operands[0] for x in o.operands]
    return emit(driver, "broadcast", emit(driver, o.op, *small, **o.attributes), **first.attributes)


def is_pointwise(o: Operation) -> bool:
    """Whether every entry of the result depends on the operands' same entries alone."""
    row = TABLE[o.op]
    return (row.code is not None or row.kind == "elementwise") and bool(o.operands) and set(o.attributes) <= {"dtype"}


# ---------------------------------------------------------------------------------------- reshape, transpose
def reshape_nothing(driver: Rewriter, o: Operation) -> Operand | None:
    """reshape to x's own dims is x."""
    return o.operands[0] if same_dims(o) else None


def reshape_reshape(driver: Rewriter, o: Operation) -> Operand | None:
    """reshape(reshape(x)) is one reshape."""
    inner = defined_by(driver, o.operands[0], "reshape")
    return None if inner is None else emit(driver, "reshape", inner.operands[0], dims=o.attributes["dims"])


def reshape_spread(driver: Rewriter, o: Operation) -> Operand | None:
    """reshape of a broadcast scalar is a broadcast scalar."""
    inner = defined_by(driver, o.operands[0], "broadcast")
    if inner is None or inner.attributes["axes"] or not o.attributes["dims"]:
        return None
    return emit(driver, "broadcast", inner.operands[0], dims=o.attributes["dims"], axes=())


def transpose_nothing(driver: Rewriter, o: Operation) -> Operand | None:
    """transpose with the identity is x."""
    permutation = o.attributes["permutation"]
    return o.operands[0] if permutation == tuple(range(len(permutation))) else None


def transpose_transpose(driver: Rewriter, o: Operation) -> Operand | None:
    """transpose(transpose(x)) is one transpose."""
    inner = defined_by(driver, o.operands[0], "transpose")
    if inner is None:
        return None
    permutation = tuple(inner.attributes["permutation"][p] for p in o.attributes["permutation"])
    return emit(driver, "transpose", inner.operands[0], permutation=permutation)


def transpose_broadcast(driver: Rewriter, o: Operation) -> Operand | None:
    """transpose(broadcast(x)) is a broadcast along other axes, where x's own axes stay in order."""
    inner = defined_by(driver, o.operands[0], "broadcast")
    if inner is None:
        return None
    permutation = o.attributes["permutation"]
    axes = tuple(permutation.index(a) for a in inner.attributes["axes"])
    dims = tuple(inner.attributes["dims"][p] for p in permutation)
    return emit(driver, "broadcast", inner.operands[0], dims=dims, axes=axes) if list(axes) == sorted(axes) else None


# ------------------------------------------------------------------------------------------------ slice, pad
def slice_nothing(driver: Rewriter, o: Operation) -> Operand | None:
    """A slice of everything is x."""
    full = all(s == Dim.of(0) for s in o.attributes["starts"]) and all(s == 1 for s in o.attributes["steps"])
    return o.operands[0] if full and same_dims(o) else None


def slice_slice(driver: Rewriter, o: Operation) -> Operand | None:
    """slice(slice(x)) is one slice."""
    inner = defined_by(driver, o.operands[0], "slice")
    if inner is None:
        return None
    starts, steps = composed(inner, o)
    return emit(driver, "slice", inner.operands[0], starts=starts, steps=steps, dims=o.attributes["dims"])


def pad_pad(driver: Rewriter, o: Operation) -> Operand | None:
    """pad(pad(x)) is one pad."""
    inner = defined_by(driver, o.operands[0], "pad")
    if inner is None:
        return None
    starts, steps = composed(o, inner)
    return emit(driver, "pad", inner.operands[0], starts=starts, steps=steps, dims=o.attributes["dims"])


def composed(outer: Operation, inner: Operation) -> tuple[tuple[Dim, ...], tuple[int, ...]]:
    """Index maps start + step * i: the one of `outer` applied to that of `inner`."""
    a, b = outer.attributes, inner.attributes
    starts = tuple(s + Dim.of(t) * k for s, k, t in zip(a["starts"], a["steps"], b["starts"], strict=True))
    return starts, tuple(k * m for k, m in zip(a["steps"], b["steps"], strict=True))


def slice_of_pad(driver: Rewriter, o: Operation) -> Operand | None:
    """The slice that a pad filled is what it was filled with."""
    inner = defined_by(driver, o.operands[0], "pad")
    if inner is None or any(inner.attributes[k] != o.attributes[k] for k in ("starts", "steps")):
        return None
    (x,) = inner.operands
    return x if x.type.dims == o.attributes["dims"] else None


def slice_broadcast(driver: Rewriter, o: Operation) -> Operand | None:
    """slice(broadcast(x)) slices x along its own axes and is broadcast along the others."""
    inner = defined_by(driver, o.operands[0], "broadcast")
    if inner is None:
        return None
    x, axes, dims = inner.operands[0], inner.attributes["axes"], o.attributes["dims"]
    if axes:
        own = {name: tuple(o.attributes[name][a] for a in axes) for name in ("starts", "steps", "dims")}
        x = emit(driver, "slice", x, **own)
    return emit(driver, "broadcast", x, dims=dims, axes=axes)


# ------------------------------------------------------------------------------------------------ reductions
def reduce_nothing(driver: Rewriter, o: Operation) -> Operand | None:
    """A reduction over no axes is x, and over axes of length 1 a reshape."""
    (x,) = o.operands
    if any(x.type.dims[a] != ONE for a in o.attributes["axes"]) or x.type.dtype is not o.result.type.dtype:
        return None
    return x if not o.attributes["axes"] else emit(driver, "reshape", x, dims=o.result.type.dims)


def sum_of_sum(driver: Rewriter, o: Operation) -> Operand | None:
    """reduce(reduce(x)) is one reduction over all the axes."""
    inner = defined_by(driver, o.operands[0], o.op)
    if inner is None or inner.operands[0].type.dtype is not o.result.type.dtype:
        return None
    removed = inner.attributes["axes"]
    kept = [a for a in range(inner.operands[0].type.rank) if a not in removed]
    axes = tuple(sorted((*removed, *(kept[a] for a in o.attributes["axes"]))))
    return emit(driver, o.op, inner.operands[0], axes=axes)


def sum_of_negative(driver: Rewriter, o: Operation) -> Operand | None:
    """reduce_sum(-x) is -reduce_sum(x)."""
    inner = defined_by(driver, o.operands[0], "neg")
    if inner is None or driver.uses[inner.result] > 1:
        return None
    return emit(driver, "neg", emit(driver, "reduce_sum", inner.operands[0], axes=o.attributes["axes"]))


def sum_of_scaled(driver: Rewriter, o: Operation) -> Operand | None:
    """reduce_sum(c * x) is c * reduce_sum(x)."""
    inner = defined_by(driver, o.operands[0], "mul")
    if inner is None or driver.uses[inner.result] > 1 or not o.attributes["axes"]:
        return None
    factor, x = inner.operands if isinstance(inner.operands[0], Literal) else inner.operands[::-1]
    if not isinstance(factor, Literal) or not isinstance(x, Value) or not 1e-30 < abs(factor.value) < 1e30:
        return None
    return emit(driver, "mul", factor, emit(driver, "reduce_sum", x, axes=o.attributes["axes"]))


def sum_of_broadcast(driver: Rewriter, o: Operation) -> Operand | None:
    """reduce_sum over an axis that a broadcast made is a product with its length."""
    inner = defined_by(driver, o.operands[0], "broadcast")
    if inner is None or not o.result.type.dtype.is_float:
        return None
    x, own, dims = inner.operands[0], inner.attributes["axes"], inner.attributes["dims"]
    made = [a for a in o.attributes["axes"] if a not in own]
    if not made:
        return None
    count = ONE
    for a in made:
        count = count * dims[a]
    summed = tuple(k for k, a in enumerate(own) if a in o.attributes["axes"])
    if summed:
        x = emit(driver, "reduce_sum", x, axes=summed)
    product = emit(driver, "mul", x, spread_over(driver, length(driver, count, o.result.type.dtype), x.type.dims))
    if count.constant is None and isinstance(x, Value):                 # of nothing the sum is 0, also where x is not finite
        none = emit(driver, "eq", emit(driver, "size", dim=count), literal_like(0, DType.i64))
        zero = literal_like(0, x.type.dtype)
        product = emit(driver, "select", spread_over(driver, none, x.type.dims), zero, product)
    x = product
    rest = [a for a in range(len(dims)) if a not in o.attributes["axes"]]
    if not rest:
        return x
    axes = tuple(rest.index(a) for a in own if a not in o.attributes["axes"])
    return emit(driver, "broadcast", x, dims=o.result.type.dims, axes=axes)


def length(driver: Rewriter, dim: Dim, dtype: DType) -> Operand:
    """A size as a floating point scalar."""
    if dim.constant is not None:
        return literal_like(dim.constant, dtype)
    return emit(driver, "cast", emit(driver, "size", dim=dim), dtype=dtype)


def spread_over(driver: Rewriter, x: Operand, dims: tuple[Dim, ...]) -> Operand:
    """A scalar in every entry of an array of these dims."""
    return x if isinstance(x, Literal) or not dims else emit(driver, "broadcast", x, dims=dims, axes=())


# ------------------------------------------------------------------------------------------------- indexing
def add_scattered(driver: Rewriter, o: Operation) -> Operand | None:
    """a + scatter_add(zeros, indices, updates) adds the updates to a, without an array of zeros between."""
    for x, other in (o.operands, o.operands[::-1]):
        inner = defined_by(driver, x, "scatter_add")
        if inner is None or driver.uses[inner.result] > 1 or not isinstance(other, Value):
            continue
        zero = spread_literal(driver, inner.operands[0])
        if zero is not None and zero.value == 0:
            return emit(driver, "scatter_add", other, *inner.operands[1:], **inner.attributes)
    return None


# ------------------------------------------------------------------------------------------------- contract
def contract_negative(driver: Rewriter, o: Operation) -> Operand | None:
    """contract(-a, b) is -contract(a, b)."""
    for i, x in enumerate(o.operands):
        inner = defined_by(driver, x, "neg")
        if inner is not None and driver.uses[inner.result] <= 1:
            operands = list(o.operands)
            operands[i] = inner.operands[0]
            return emit(driver, "neg", emit(driver, "contract", *operands, **o.attributes))
    return None


def contract_transpose(driver: Rewriter, o: Operation) -> Operand | None:
    """contract reads a transposed operand in its own order."""
    for i, key in enumerate(("a_labels", "b_labels")):
        inner = defined_by(driver, o.operands[i], "transpose")
        if inner is not None:
            labels = [0] * len(o.attributes[key])
            for k, p in enumerate(inner.attributes["permutation"]):
                labels[p] = o.attributes[key][k]
            operands = list(o.operands)
            operands[i] = inner.operands[0]
            return emit(driver, "contract", *operands, **{**o.attributes, key: tuple(labels)})
    return None


def contract_broadcast(driver: Rewriter, o: Operation) -> Operand | None:
    """An axis that a broadcast made needs no contraction: the other operand is summed over it first, or the result is
    broadcast along it."""
    labels = [list(o.attributes["a_labels"]), list(o.attributes["b_labels"])]
    for i in (0, 1):
        inner = defined_by(driver, o.operands[i], "broadcast")
        if inner is not None and len(inner.attributes["axes"]) < len(labels[i]):
            mine = tuple(labels[i][a] for a in inner.attributes["axes"])
            pair = [(inner.operands[0], mine), (o.operands[1 - i], tuple(labels[1 - i]))]
            return contract_any(driver, pair if i == 0 else pair[::-1], o)
    return None


def contract_any(driver: Rewriter, pair: Sequence[tuple[Operand, tuple[int, ...]]], o: Operation) -> Operand:
    """contract where labels may occur in one of the three alone: sums such axes first, broadcasts along them last."""
    out, dims = o.attributes["out_labels"], o.result.type.dims
    operands, labels = [], []
    for (x, mine), (_, other) in ((pair[0], pair[1]), (pair[1], pair[0])):
        alone = tuple(k for k, label in enumerate(mine) if label not in other and label not in out)
        operands.append(emit(driver, "reduce_sum", x, axes=alone) if alone else x)
        labels.append(tuple(label for k, label in enumerate(mine) if k not in alone))
    kept = tuple(label for label in out if label in labels[0] or label in labels[1])
    result = emit(driver, "contract", *operands, a_labels=labels[0], b_labels=labels[1], out_labels=kept)
    if kept == out:
        return result
    return emit(driver, "broadcast", result, dims=dims, axes=tuple(k for k, label in enumerate(out) if label in kept))


def contract_pointwise(driver: Rewriter, o: Operation) -> Operand | None:
    """A contraction that sums over nothing and where one operand has all the axes is a product."""
    out = o.attributes["out_labels"]
    labels = o.attributes["a_labels"], o.attributes["b_labels"]
    if any(label not in out for side in labels for label in side) or not any(set(side) == set(out) for side in labels):
        return None
    a, b = (placed(driver, x, side, out, o.result.type.dims) for x, side in zip(o.operands, labels, strict=True))
    return emit(driver, "mul", a, b)


def placed(driver: Rewriter, x: Operand, labels: tuple[int, ...], out: tuple[int, ...], dims: tuple[Dim, ...]) -> Operand:
    """An operand of a contraction with its axes where the result has them."""
    if isinstance(x, Literal):
        return x
    order = tuple(sorted(range(len(labels)), key=lambda k: out.index(labels[k])))
    if order != tuple(range(len(labels))):
        x = emit(driver, "transpose", x, permutation=order)
    axes = tuple(sorted(out.index(label) for label in labels))
    return x if len(axes) == len(out) else emit(driver, "broadcast", x, dims=dims, axes=axes)


# ------------------------------------------------------------------------------------------------------ cast
def cast_nothing(driver: Rewriter, o: Operation) -> Operand | None:
    """A cast to x's own dtype is x."""
    return o.operands[0] if o.operands[0].type.dtype is o.attributes["dtype"] else None


def cast_cast(driver: Rewriter, o: Operation) -> Operand | None:
    """cast(cast(x)) is one cast where the inner one loses nothing."""
    inner = defined_by(driver, o.operands[0], "cast")
    if inner is None:
        return None
    x = inner.operands[0]
    lossless = x.type.dtype is DType.bool or (x.type.dtype is DType.f32 and inner.attributes["dtype"] is DType.f64)
    return emit(driver, "cast", x, dtype=o.attributes["dtype"]) if lossless else None


# ----------------------------------------------------------------------------------------------------- sizes
def larger_than_size(driver: Rewriter, o: Operation) -> Operand | None:
    """maximum(size, 0) is the size, where it cannot be negative."""
    for x, other in (o.operands, o.operands[::-1]):
        size = defined_by(driver, x, "size")
        if size is not None and isinstance(other, Literal) and other.value == 0 and not_negative(driver, size.attributes["dim"]):
            return x
    return None


def not_negative(driver: Rewriter, dim: Dim) -> bool:
    """Whether a guard keeps a size from being negative, or it is a sum of products of lengths of axes and of such sizes."""
    function = driver.function
    for g in function.guards:
        above = (dim - (g.left - g.right)).constant
        if g.relation == ">=" and above is not None and above >= 0:
            return True
    counts = {s for s, size in function.sizes.items() if size.axis is not None}
    counts |= {g.left.bare_symbol for g in function.guards if g.relation == ">=" and g.left.bare_symbol
               and g.right.constant is not None and g.right.constant >= 0}
    return all(c > 0 for _, c in dim.terms) and dim.symbols <= counts


REDUCTIONS = ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_any", "reduce_all")

STRUCTURE = (
    StructuralRule("broadcast nothing", ("broadcast",), broadcast_nothing, EXACT),
    StructuralRule("broadcast broadcast", ("broadcast",), broadcast_broadcast, EXACT),
    StructuralRule("reshape nothing", ("reshape",), reshape_nothing, EXACT),
    StructuralRule("reshape reshape", ("reshape",), reshape_reshape, EXACT),
    StructuralRule("reshape broadcast", ("reshape",), reshape_spread, EXACT),
    StructuralRule("transpose nothing", ("transpose",), transpose_nothing, EXACT),
    StructuralRule("transpose transpose", ("transpose",), transpose_transpose, EXACT),
    StructuralRule("transpose broadcast", ("transpose",), transpose_broadcast, EXACT),
    StructuralRule("slice nothing", ("slice",), slice_nothing, EXACT),
    StructuralRule("slice slice", ("slice",), slice_slice, EXACT),
    StructuralRule("slice pad", ("slice",), slice_of_pad, EXACT),
    StructuralRule("slice broadcast", ("slice",), slice_broadcast, EXACT),
    StructuralRule("pad pad", ("pad",), pad_pad, EXACT),
    StructuralRule("reduce nothing", REDUCTIONS, reduce_nothing, EXACT),
    StructuralRule("reduce reduce", REDUCTIONS, sum_of_sum, REASSOCIATES),
    StructuralRule("sum negative", ("reduce_sum",), sum_of_negative, SIGN_OF_ZERO),
    StructuralRule("sum broadcast", ("reduce_sum",), sum_of_broadcast, REASSOCIATES),
    StructuralRule("sum scaled", ("reduce_sum",), sum_of_scaled, REASSOCIATES),
    StructuralRule("add scattered", ("add",), add_scattered, REASSOCIATES),
    StructuralRule("contract negative", ("contract",), contract_negative, SIGN_OF_ZERO),
    StructuralRule("contract transpose", ("contract",), contract_transpose, EXACT),
    StructuralRule("contract pointwise", ("contract",), contract_pointwise, EXACT),
    StructuralRule("contract broadcast", ("contract",), contract_broadcast, REASSOCIATES),
    StructuralRule("maximum of a size", ("maximum",), larger_than_size, EXACT),
    StructuralRule("cast nothing", ("cast",), cast_nothing, EXACT),
    StructuralRule("cast cast", ("cast",), cast_cast, EXACT),
)


def pointwise_rules() -> tuple[StructuralRule, ...]:
    """Rules for every pointwise op of the table."""
    ops = tuple(name for name, row in TABLE.items() if row.code is not None or row.kind == "elementwise")
    return (StructuralRule("pointwise literals", ops, broadcast_literals, EXACT),
            StructuralRule("pointwise broadcasts", ops, pointwise_of_broadcasts, EXACT))
