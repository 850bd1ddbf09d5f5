"""Values of a call -> exactly what a kernel takes: Python scalars and C-contiguous, aligned, writable, native arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import UnsupportedOp
from ..ir.types import DType, Type


class Mismatch(Exception):
    """A value cannot be passed for a parameter of this type without changing its meaning."""


LeafKey = tuple[Any, ...]


def leaf_key(value: Any) -> LeafKey:
    """What capture can see of a value's type: two values with equal keys are captured alike."""
    if isinstance(value, np.ndarray):
        return ("array", value.dtype.newbyteorder("="), value.ndim)
    if isinstance(value, (list, tuple)):
        array = as_array(value)
        return ("list", array.dtype, array.ndim)
    return ("scalar", type(value))


def as_array(value: Any) -> np.ndarray:
    """The plain array of an array-like. Refuses what is not a plain array of numbers."""
    if isinstance(value, (np.ma.MaskedArray, np.matrix)):
        raise UnsupportedOp(f"an argument is a {type(value).__module__}.{type(value).__name__}",
                            do="Pass a plain array: np.asarray(x), or x.filled(...) for masked arrays.")
    try:
        return np.asarray(value)
    except ValueError as error:                     # a ragged list
        raise Mismatch(str(error)) from None


def convert(value: Any, type: Type, *, wrt: bool, lenient: bool) -> Any:
    """`value` as a parameter of this type; `Mismatch` where dtype or rank differ.

    Numbers and lists of ints become floats for an argument that is differentiated. `lenient`: capture chose the
    parameter's type for such a value, so casts it may have decided on (int to float, float to another float) are done.
    """
    if type.rank == 0:
        return convert_scalar(value, type.dtype, wrt=wrt, lenient=lenient)
    array = as_array(value)
    if array.ndim != type.rank:
        raise Mismatch(f"{array.ndim} axes instead of {type.rank}")
    wanted = type.dtype.numpy
    if array.dtype.newbyteorder("=") != wanted:
        whole_list = wrt and not isinstance(value, np.ndarray) and array.dtype.kind in "iu"
        if not ((lenient or whole_list) and castable(array.dtype, type.dtype)):
            raise Mismatch(f"{array.dtype} instead of {wanted}")
    return exact_array(array, wanted)


def castable(given: np.dtype, wanted: DType) -> bool:
    """Whether a cast keeps what a value means: among floats, among integers, from integers to floats; never to integers."""
    kinds = {"b": "biufc", "i": "iufc", "u": "iufc", "f": "fc", "c": "c"}
    return wanted.numpy.kind in kinds.get(given.kind, "")


def exact_array(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """C-contiguous, aligned, native, of class ndarray and writable to the eye: copied where needed; where only the flag
    is missing, an alias of the same memory (kernels never write to their parameters)."""
    if array.dtype != dtype or not array.flags.c_contiguous or not array.flags.aligned:
        return np.array(array, dtype=dtype, order="C", subok=False)
    array = array.view(np.ndarray)
    return array if array.flags.writeable else writable_alias(array)


class Memory:
    """Offers an array's memory through NumPy's interface, as if it could be written."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array                          # keeps the memory alive
        self.__array_interface__ = {**array.__array_interface__, "data": (array.__array_interface__["data"][0], False)}


def writable_alias(array: np.ndarray) -> np.ndarray:
    """A writable view of read-only memory, for a callee that does not write but whose type says it might."""
    return np.asarray(Memory(array)) if array.size else np.empty(array.shape, array.dtype)


def convert_scalar(value: Any, dtype: DType, *, wrt: bool, lenient: bool) -> Any:
    """`value` as a scalar parameter."""
    if isinstance(value, np.ndarray):
        if value.ndim:
            raise Mismatch(f"{value.ndim} axes instead of a scalar")
        value = value[()]
    given = scalar_dtype(value)
    if given is None:
        raise Mismatch(f"a {value.__class__.__name__} instead of a number")
    wanted = dtype.numpy
    if given != wanted:
        whole = wrt and given.kind in "iu" and wanted.kind == "f"
        if not ((lenient or whole) and castable(given, dtype)):
            raise Mismatch(f"{given} instead of {wanted}")
    if dtype in PYTHON_SCALARS:
        return PYTHON_SCALARS[dtype](value)
    return wanted.type(value)


PYTHON_SCALARS: dict[DType, Any] = {DType.f64: float, DType.i64: int, DType.bool: bool, DType.c128: complex}


def scalar_dtype(value: Any) -> np.dtype | None:
    """The dtype that a number has in NumPy; None for what is no number."""
    if isinstance(value, np.generic):
        return value.dtype
    for python, dtype in ((bool, np.bool_), (int, np.int64), (float, np.float64), (complex, np.complex128)):
        if isinstance(value, python):
            return np.dtype(dtype)
    return None
