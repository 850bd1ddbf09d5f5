"""dce: removes what no result depends on.

Needs: verified IR. Leaves: only operations that results depend on, in every region; loops carry only what is read. Exact.
"""

from __future__ import annotations

from ..ir.core import Block, Function
from ..ir.prune import clean


def dce(function: Function) -> Function:
    """The function without dead operations. Parameters stay."""
    body = Block(function.params, clean(function.body.operations, function.results), function.results)
    return Function(function.name, body, function.sizes, function.guards)
