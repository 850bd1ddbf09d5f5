"""Values of a call -> exactly what a kernel takes: Python scalars and C-contiguous, aligned, writable, native arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.types import DType, Type


class Mismatch(Exception):
    """A value cannot be passed for a parameter of this type without changing its meaning."""


LeafKey = tuple[Any, ...]
PLAIN = (np.ndarray, np.memmap)             # classes that compute as arrays do


def leaf_key(value: Any) -> LeafKey:
    """What capture can see of a value's type: two values with equal keys are captured alike."""
    if isinstance(value, np.ndarray):
        return (type(value), value.dtype.newbyteorder("="), value.ndim)
    return (type(value),)


def convert(value: Any, type: Type, *, wrt: bool, lenient: bool) -> Any:
    """`value` as a parameter of this type; `Mismatch` where dtype or rank differ.

    Integers become floats for a number that is differentiated. `lenient`: capture chose the parameter's type for such a
    value, so casts it may have decided on (int to float, float to another float) are done.
    """
    if type.rank == 0:
        return convert_scalar(value, type.dtype, wrt=wrt, lenient=lenient)
    if value.__class__ not in PLAIN or value.ndim != type.rank:
        raise Mismatch(f"{value.__class__.__name__} of {np.ndim(value)} axes instead of an array of {type.rank}")
    if value.dtype.newbyteorder("=") != type.dtype.numpy and not (lenient and castable(value.dtype, type.dtype)):
        raise Mismatch(f"{value.dtype} instead of {type.dtype.numpy}")
    return exact_array(value.view(np.ndarray), type.dtype.numpy)


def castable(given: np.dtype, wanted: DType) -> bool:
    """Whether a cast keeps what a value means: among floats, among integers, from integers to floats; never to integers."""
    kinds = {"b": "biufc", "i": "iufc", "u": "iufc", "f": "fc", "c": "c"}
    return wanted.numpy.kind in kinds.get(given.kind, "")


def exact_array(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """C-contiguous, aligned, native and writable to the eye: copied where needed; where only the flag is missing, an
    alias of the same memory (kernels never write to their parameters)."""
    flags = array.flags
    if array.dtype != dtype or not array.dtype.isnative or not flags.c_contiguous or not flags.aligned:
        return np.array(array, dtype=dtype, order="C")
    return array if flags.writeable else writable_alias(array)


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
