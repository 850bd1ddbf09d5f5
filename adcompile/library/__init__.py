"""NumPy, SciPy, math and builtin functions, composed of ops. No derivative rules here: `LIBRARY` is filled by importing."""

from . import contraction as contraction
from . import creation as creation
from . import elementwise as elementwise
from . import indexing as indexing
from . import reduction as reduction
from . import shape as shape
from . import special as special
from .registry import LIBRARY as LIBRARY
