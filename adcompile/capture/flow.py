"""How a block of statements was left: at its end (None), or by `break`, `continue` or `return`, which may be traced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Block = Callable[[], Any]


@dataclass(eq=False)
class Flow:
    """Flags are bools, or traced bools where it depends on traced values how the block is left. None of them set: at its end."""

    broke: Any = False
    continued: Any = False
    returned: Any = False
    value: Any = None

    @property
    def flags(self) -> tuple[Any, Any, Any]:
        """The flags in order."""
        return self.broke, self.continued, self.returned

    @property
    def definite(self) -> bool:
        """Whether the block was certainly not left at its end."""
        return any(flag is True for flag in self.flags)

    @property
    def traced(self) -> bool:
        """Whether the way out is traced."""
        return any(not isinstance(flag, bool) for flag in self.flags)


BREAK, CONTINUE = Flow(broke=True), Flow(continued=True)


def returned(value: Any) -> Flow:
    """The block was left by `return value`."""
    return Flow(returned=True, value=value)
