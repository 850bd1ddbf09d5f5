"""THE TABLE: what an operation is, one row per op. Importing this package fills `adcompile.ir.op.TABLE`.

`ops.exp` is the row named "exp"; a trailing underscore avoids Python's own words: `ops.abs_`, `ops.not_`, `ops.slice_`.
"""

from ..ir.op import TABLE, Op
from . import contraction as contraction
from . import control as control
from . import elementwise as elementwise
from . import indexing as indexing
from . import marks as marks
from . import reduction as reduction
from . import shape as shape
from . import special as special


def __getattr__(name: str) -> Op:
    """The row of that name."""
    row = TABLE.get(name.removesuffix("_"))
    if row is None:
        raise AttributeError(f"no op is named {name!r}")
    return row
