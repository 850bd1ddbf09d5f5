"""Captures ordinary NumPy code: a Python function and example arguments become a graph (`driver.capture`)."""

from .. import ops as ops  # fills the table of ops
from .driver import Abstract as Abstract
from .driver import CapturedFunction as CapturedFunction
from .driver import capture as capture
from .driver import capture_types as capture_types
from .marks import detach as detach
from .marks import no_grad as no_grad
from .marks import stop_gradient as stop_gradient
