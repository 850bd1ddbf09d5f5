"""Methods: what was captured of a bound method, made right for every object of the class."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

from ..ir.signature import Access, Argument, Captured, Check, Input


def share_method(captured: Any, python: inspect.Signature, instance: Any) -> Any:
    """A captured bound method as a function whose first argument is the object: what was read from `instance` is read
    from that argument, so one kernel serves all objects for which the checks hold."""
    first = next(iter(python.parameters))

    def moved(access: Access) -> Access:
        root = access.root
        return Access(Argument(first), access.steps) if isinstance(root, Captured) and root.object is instance else access

    signature = captured.signature
    inputs = tuple(Input(i.name, moved(i.access), i.text) for i in signature.inputs)
    checks = tuple(Check(moved(c.access), c.expected, c.identity, c.text) for c in signature.checks)
    shared = dataclasses.replace(signature, python=python, inputs=inputs, checks=checks)
    return dataclasses.replace(captured, signature=shared)
