"""Stores that are more than `a[i] = v`: `np.add.at`, `out=`, masks, and arrays that were concrete until something traced came."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import CaptureError, UnsupportedOp
from ..library.core import emit, permuted
from .storage import Path, fitted, follow, is_view, written
from .tracer import Tracer
from .where import user_location

if TYPE_CHECKING:
    from .trace import Trace


class Retrace(CaptureError):
    """A concrete array turned out to hold traced values: the capture starts anew, with the array traced from its `site` on."""

    def __init__(self, site: Any, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.site = site


def add_at(trace: Trace, ufunc: np.ufunc, target: Any, key: Any, value: Any = None) -> None:
    """`np.add.at(target, key, value)`: every entry counts, also where places repeat."""
    if not isinstance(target, Tracer):
        raise trace_anew(trace, target)
    if ufunc not in (np.add, np.subtract):
        raise UnsupportedOp(f"numpy.{ufunc.__name__}.at is not supported on traced values", user_location(),
                            f"write the loop: for i, v in zip(indices, values): a[i] = np.{ufunc.__name__}(a[i], v)")
    if isinstance(key, Tracer) and key.dtype.kind == "b":
        augment_masked(target, key, ufunc, value)
        return
    place = trace.place(target, key)
    if target.path or len([step for step in place if step.op == "gather"]) != 1:
        if not is_view(place):
            raise UnsupportedOp(f"numpy.{ufunc.__name__}.at on a view is not supported", user_location(),
                                "index the array itself")
        target[key] = ufunc(target[key], value)
        return
    trace.builder.location = user_location()
    root = trace.contents(target.cell)
    update = trace.unwrap(-value if ufunc is np.subtract else value)
    update = fitted(update, trace.sizes.resolve_type(follow(root, place).type))
    trace.write(target.cell, scattered(root, place, update))


def augment_masked(target: Tracer, mask: Tracer, function: Callable[[Any, Any], Any], value: Any) -> None:
    """`target[mask] = function(target[mask], value)`."""
    if np.ndim(value):
        target[mask] = function(target[mask], value)
    else:
        target.trace.masked_store(target, mask, function(target, value))


def scattered(root: Any, place: Path, update: Any) -> Any:
    """The root with updates added at the places of one gather, before and after which there may be other views."""
    first, rest = place[0], place[1:]
    if first.op == "gather":
        for step in reversed(rest):
            before = follow(root, place[:place.index(step)])
            update = emit("reshape", update, dims=before.type.dims) if step.op == "reshape" else \
                permuted(update, [step.attributes["permutation"].index(k) for k in range(update.type.rank)])
        return emit("scatter_add", root, *first.operands, update, axes=first.attributes["axes"])
    inner = follow(root, (first,))
    return written(root, (first,), scattered(inner, rest, update))


def into(trace: Trace, compute: Callable[[], Any], out: Any, where: Any = True) -> Any:
    """`f(..., out=out, where=where)`: the result is written into `out`."""
    if isinstance(out, tuple):
        raise UnsupportedOp("out= with several arrays is not supported", user_location(), "use the function's results")
    if not isinstance(out, Tracer):
        raise trace_anew(trace, out)
    result = compute()
    result = result if isinstance(result, Tracer) else trace.apply(np.asarray, (result,))
    if not np.can_cast(result.dtype, out.dtype, "same_kind"):
        raise CaptureError(f"an array of {out.dtype} cannot hold a {result.dtype} result", user_location(),
                           "use the function's result")
    trace.element_store(out, Ellipsis, result if where is True else trace.apply(np.where, (where, result, out)))
    return out


def trace_anew(trace: Trace, array: Any) -> Exception:
    """The exception that starts the capture anew, now with a concrete array traced from where the function made it."""
    owner = array
    while isinstance(owner, np.ndarray) and id(owner) not in trace.made and owner.base is not None:
        owner = owner.base
    if id(owner) in trace.made:
        return Retrace(trace.made[id(owner)][0], "a traced value is stored into a NumPy array", user_location())
    return CaptureError("a traced value is stored into a NumPy array", user_location(),
                        "make the array in the function, for example with np.zeros, or build it with np.stack")
