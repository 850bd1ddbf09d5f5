"""THE TABLE: what an operation is, one row per op. Importing this package fills `adcompile.ir.op.TABLE`."""

from . import elementwise as elementwise
