"""Runs a graph with NumPy: the reference meaning of the IR. Every result's dtype and shape is checked against its type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import GuardError, VerifyError
from .analysis import defined_symbol
from .core import Block, Function, Literal, Operand, Operation, Value
from .dims import Dim
from .op import TABLE

Observe = Callable[[Operation, tuple[Any, ...], tuple[Any, ...]], None]
Sizes = Mapping[str, int]


def interpret(function: Function, args: Sequence[Any], observe: Observe | None = None) -> tuple[Any, ...]:
    """The results for arguments that pass `check_guards`. `observe(operation, operands, results)` sees the values of
    every operation, those in regions included."""
    arrays = [as_parameter(p, a) for p, a in zip(function.params, args, strict=True)]
    sizes = check_guards(function, arrays)
    with np.errstate(all="ignore"):
        return Interpreter(sizes, observe).block(function.body, arrays)


def as_parameter(parameter: Value, argument: Any) -> Any:
    """An argument in the dtype of its parameter. Raises `GuardError` where that would change its kind."""
    wanted = parameter.type.dtype.numpy
    array = np.asarray(argument)
    if array.dtype != wanted and not np.can_cast(array.dtype, wanted, "same_kind"):
        raise GuardError(f"'{parameter.name}' is of type {array.dtype}, not {wanted}")
    return array.astype(wanted)[()]


def sizes_of(function: Function, args: Sequence[Any]) -> dict[str, int]:
    """The value of every size symbol. Raises `GuardError` where an argument has too few axes."""
    sizes = {}
    for symbol, size in function.sizes.items():
        argument = args[size.parameter]
        if size.axis is not None and np.ndim(argument) <= size.axis:
            raise GuardError(f"'{function.params[size.parameter].name}' has {np.ndim(argument)} axes")
        sizes[symbol] = int(argument) if size.axis is None else np.shape(argument)[size.axis]
    return sizes


def check_guards(function: Function, args: Sequence[Any]) -> dict[str, int]:
    """Raise `GuardError` unless the function was made for arguments of these shapes; else the sizes."""
    sizes = sizes_of(function, args)
    for parameter, argument in zip(function.params, args, strict=True):
        wanted = shape_of(parameter, sizes)
        if np.shape(argument) != wanted:
            raise GuardError(f"'{parameter.name}' has shape {np.shape(argument)}, not {wanted} ({parameter.type})")
    for guard in function.guards:
        if not guard.holds(sizes):
            raise GuardError(f"{guard} does not hold", guard.location)
    return sizes


def shape_of(value: Value, sizes: Sizes) -> tuple[int, ...]:
    """The shape of a value for given sizes."""
    return tuple(d.evaluate(sizes) for d in value.type.dims)


def evaluated(attribute: Any, sizes: Sizes) -> Any:
    """An attribute with every size in it replaced by its value."""
    if isinstance(attribute, Dim):
        return attribute.evaluate(sizes)
    if isinstance(attribute, tuple):
        return tuple(evaluated(a, sizes) for a in attribute)
    return attribute


class Interpreter:
    """One run: the sizes and the values so far."""

    def __init__(self, sizes: Sizes, observe: Observe | None = None) -> None:
        self.sizes, self.observe = dict(sizes), observe
        self.values: dict[Value, Any] = {}
        self.control: Mapping[str, Callable[[Operation, list[Any]], Iterable[Any]]] = {
            "for": self.run_for, "while": self.run_while, "cond": self.run_cond}

    def operand(self, x: Operand) -> Any:
        """A value, or a number of the literal's dtype."""
        return x.dtype.numpy.type(x.value) if isinstance(x, Literal) else self.values[x]

    def block(self, block: Block, arguments: Iterable[Any]) -> tuple[Any, ...]:
        """Run a block; what it yields."""
        for parameter, argument in zip(block.arguments, arguments, strict=True):
            self.values[parameter] = argument
        for operation in block.operations:
            self.operation(operation)
        return tuple(self.operand(x) for x in block.yields)

    def operation(self, operation: Operation) -> None:
        """Run one operation and check what comes out."""
        operands = [self.operand(x) for x in operation.operands]
        row = TABLE[operation.op]
        if row.kind == "control":
            outputs = self.control[operation.op](operation, operands)
        else:
            assert row.reference is not None
            attributes = {key: evaluated(a, self.sizes) for key, a in operation.attributes.items()}
            output = row.reference(*operands, **attributes)
            outputs = output if len(operation.results) > 1 else (output,)
        results = tuple(self.checked(operation, value, np.asarray(output))[()]
                        for value, output in zip(operation.results, outputs, strict=True))
        self.values.update(zip(operation.results, results, strict=True))
        symbol = defined_symbol(operation)
        if symbol is not None:
            self.sizes[symbol] = int(results[0])
        if self.observe is not None:
            self.observe(operation, tuple(operands), results)

    def checked(self, operation: Operation, value: Value, output: np.ndarray) -> np.ndarray:
        """The output, after a check that the type says what came out."""
        wanted = shape_of(value, self.sizes)
        if output.shape != wanted or output.dtype != value.type.dtype.numpy:
            raise VerifyError(f"{operation.op!r} gave {output.dtype} of shape {output.shape}, but %{value.name} is {value.type}, "
                              f"of shape {wanted} here", operation.location)
        return output

    def run_for(self, operation: Operation, operands: list[Any]) -> Iterable[Any]:
        """The body for every index from lo to hi - 1."""
        (body,) = operation.regions
        lo, hi, *carried = operands
        for i in range(int(lo), int(hi)):
            carried = list(self.block(body, (np.int64(i), *carried)))
        return carried

    def run_while(self, operation: Operation, operands: list[Any]) -> Iterable[Any]:
        """The body as long as the condition holds."""
        condition, body = operation.regions
        carried = operands
        while self.block(condition, carried)[0]:
            carried = list(self.block(body, carried))
        return carried

    def run_cond(self, operation: Operation, operands: list[Any]) -> Iterable[Any]:
        """The first branch or the second."""
        then, otherwise = operation.regions
        return self.block(then if operands[0] else otherwise, ())
