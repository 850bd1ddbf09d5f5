"""Types of the graph IR: `Type(dtype, dims)`, printed as `f64[X_0, 3]`; rank 0 prints as `f64`."""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from enum import Enum

import numpy as np

from .dims import Dim, DimLike


class DType(Enum):
    """Element types. The value is NumPy's name."""

    bool = "bool"
    i8 = "int8"
    i16 = "int16"
    i32 = "int32"
    i64 = "int64"
    u8 = "uint8"
    u16 = "uint16"
    u32 = "uint32"
    u64 = "uint64"
    f32 = "float32"
    f64 = "float64"
    c64 = "complex64"
    c128 = "complex128"

    @property
    def numpy(self) -> np.dtype:
        """The NumPy dtype."""
        return NUMPY_DTYPES[self]

    @property
    def is_float(self) -> builtins.bool:
        """Real floating point: what can carry a tangent or a cotangent."""
        return self in (DType.f32, DType.f64)

    @property
    def is_complex(self) -> builtins.bool:
        """Complex floating point."""
        return self in (DType.c64, DType.c128)

    @property
    def is_integer(self) -> builtins.bool:
        """Signed or unsigned integer, not bool."""
        return self.value.startswith(("int", "uint"))

    # Members are compared by identity; Enum's own hash goes through the name, which shows in large graphs.
    __hash__ = object.__hash__

    def __str__(self) -> str:
        return self.name


NUMPY_DTYPES = {dtype: np.dtype(dtype.value) for dtype in DType}
FROM_NUMPY = {numpy: dtype for dtype, numpy in NUMPY_DTYPES.items()}


def dtype_of(numpy: np.dtype) -> DType | None:
    """The IR's dtype for a NumPy dtype, None where there is none (object, str, float16, ...)."""
    return FROM_NUMPY.get(np.dtype(numpy))


@dataclass(frozen=True)
class Type:
    """The type of a value: element type and axis lengths. `dims` is empty for a scalar."""

    dtype: DType
    dims: tuple[Dim, ...] = ()

    @staticmethod
    def of(dtype: DType, *dims: DimLike) -> Type:
        """A type from dims given as Dim or int."""
        return Type(dtype, tuple(Dim.of(d) for d in dims))

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.dims)

    def with_dims(self, dims: tuple[Dim, ...]) -> Type:
        """The same element type over other axes."""
        return Type(self.dtype, tuple(dims))

    def with_dtype(self, dtype: DType) -> Type:
        """The same axes with another element type."""
        return Type(dtype, self.dims)

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.dims))}]" if self.dims else str(self.dtype)
