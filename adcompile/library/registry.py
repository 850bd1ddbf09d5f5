"""Which functions are known: `LIBRARY` maps a NumPy, SciPy, math or builtin function to the one that composes it of ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

LIBRARY: dict[Callable[..., Any], Callable[..., Any]] = {}
F = TypeVar("F", bound=Callable[..., Any])


def implements(*functions: Callable[..., Any] | None) -> Callable[[F], F]:
    """Registers the decorated function under each of `functions`; None stands for one that this NumPy or SciPy lacks."""
    def register(implementation: F) -> F:
        for function in functions:
            if function is None:
                continue
            if LIBRARY.get(function, implementation) is not implementation:
                raise ValueError(f"{function} is implemented twice")
            LIBRARY[function] = implementation
        return implementation

    return register
