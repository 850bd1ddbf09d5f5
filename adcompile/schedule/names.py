"""Names in generated code: short, the user's own where there are any, never colliding."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable

RESERVED = {"np", "nb", "math", "numpy", "numba", "FASTMATH", *keyword.kwlist, *keyword.softkwlist, *dir(builtins)}
LOOP_NAMES = ("i", "j", "k", "l", "p", "q", "r", "s")
SIZE_NAMES = ("n", "d", "m", "h", "c", "p", "q", "r")
INSTANCE = "__"             # sets off the number of a value that is computed again in several places
UNNAMED = re.compile(r"t(_\d+)?(_bar|_part|_sofar|_sum|_max|_min)*(_\d+|_[ijklpqrs]{1,3})*(_bar|_part|_sofar|_sum)*(_\d+)?_?")


def is_unnamed(name: str) -> bool:
    """Whether a local has no name of the user's: t, t_3, t_3_sum, t_3_bar."""
    return UNNAMED.fullmatch(name.split(INSTANCE)[0]) is not None


class Names:
    """Hands out identifiers, each once."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.taken = {*RESERVED, *taken}

    def fresh(self, wish: str) -> str:
        """The wished name, or with a number behind it."""
        name, number = wish, 1
        while name in self.taken:
            name, number = f"{wish}_{number}", number + 1
        self.taken.add(name)
        return name

    def first_free(self, wishes: Iterable[str]) -> str:
        """The first of several names that is free; the last one, numbered, if none is."""
        wishes = tuple(wishes)
        return self.fresh(next((w for w in wishes if w not in self.taken), wishes[-1]))
