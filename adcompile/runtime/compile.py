"""Generated source text -> compiled numba functions.

A generated module (see `emit`) defines an entry, `loss(*params) -> (value, ..., *gradients)`, and the kernel under it,
`loss_kernel(*params, *gradient_buffers) -> value`. Each is compiled when first asked for, for one list of exact types. A
numba dispatcher may convert arguments as it likes (with compilation disabled even float to int, by truncation); ours never
does: anything but the compiled types raises `Miss`, and the slow path decides what to do.
"""

from __future__ import annotations

import hashlib
import linecache
import sys
import types as python_types
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numba import config, from_dtype, typeof, types
from numba.core.errors import TypingError
from numba.core.registry import CPUDispatcher

from ..ir.types import Type
from .cache import KernelCache, Key

NUMBA: Any = config                         # settings made from the environment, unknown to type checkers


class Miss(TypeError):
    """The arguments are not of the types that a kernel is compiled for. Made often, shown rarely: its text is not written
    before it is asked for."""

    def __init__(self, function: Any = None, given: tuple[Any, ...] = ()) -> None:
        super().__init__()
        self.function, self.given = function, given

    def __str__(self) -> str:
        if self.function is None:
            return "what the call was compiled for has changed"
        taken = ", ".join(map(str, self.function.signatures[0]))
        return f"{self.function.py_func.__name__} takes ({taken}), not ({', '.join(str(typeof(x)) for x in self.given)})"


class ExactDispatcher(CPUDispatcher):
    """A numba dispatcher that never converts and never compiles at a call: other types than its own raise `Miss`.

    Inside `@njit` code it also takes arrays of the same dtype and rank in any layout (compiled when needed).
    """

    def _compile_for_args(self, *args: Any, **kwargs: Any) -> Any:
        raise Miss(self, args)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Typing inside `@njit` code: refuses other dtypes and ranks instead of compiling the source for them."""
        if self.signatures:
            _, folded = self.fold_argument_types(args, kws)
            taken = self.signatures[0]
            if not all(same_kind(a, b) for a, b in zip(folded, taken)):
                raise TypingError(f"{self.py_func.__name__} takes ({', '.join(map(str, taken))}), "
                                  f"not ({', '.join(map(str, folded))})")
        return super().get_call_template(args, kws)


def same_kind(given: types.Type, taken: types.Type) -> bool:
    """Whether a numba type has the dtype and rank of another: layout, mutability and literals do not matter."""
    given = types.unliteral(given)
    if isinstance(given, types.Array) and isinstance(taken, types.Array):
        return given.dtype == taken.dtype and given.ndim == taken.ndim
    return bool(given == taken)


def numba_type(type: Type, *, buffer: bool = False) -> types.Type:
    """The numba type of a parameter: a scalar or a C-contiguous array; of a `buffer`, always an array."""
    scalar = from_dtype(type.dtype.numpy)
    return types.Array(scalar, type.rank, "C") if type.rank or buffer else scalar


class PlainFunction:
    """Stands in for a compiled function where numba's JIT is disabled: the same exactness, in plain Python."""

    def __init__(self, function: Callable[..., Any], signature: tuple[types.Type, ...]) -> None:
        self.py_func, self.signatures = function, [signature]

    def __call__(self, *args: Any) -> Any:
        """Call the Python function if the arguments are of the exact types."""
        if not all(plain_type_is(a, t) for a, t in zip(args, self.signatures[0], strict=True)):
            raise Miss(self, args)
        return self.py_func(*args)


def plain_type_is(value: Any, expected: types.Type) -> bool:
    if isinstance(expected, types.Array):
        return (type(value) is np.ndarray and value.dtype == np.dtype(expected.dtype.name) and value.ndim == expected.ndim
                and value.flags.c_contiguous and value.flags.writeable)
    if isinstance(expected, types.Boolean):
        return isinstance(value, (bool, np.bool_))
    if isinstance(value, np.generic):
        return value.dtype == np.dtype(expected.name)
    return type(value) is {"float64": float, "int64": int, "complex128": complex}.get(expected.name)


class GeneratedModule:
    """One generated module and its functions, each compiled for exact types when first asked for."""

    def __init__(self, source: str, name: str, *, cache: bool) -> None:
        self.source, self.name, self.cache = source, name, cache
        self.module = load_module(source, name)
        self.loaded_from_cache = False

    def exact(self, function: str, signature: tuple[types.Type, ...]) -> Any:
        """The module's function of this name, compiled (or loaded) for exactly these types; made once a process."""
        found = getattr(self.module, function)
        if NUMBA.DISABLE_JIT:
            return PlainFunction(found, signature)
        made = self.module.__dict__.setdefault("__exact__", {})     # kept for good: numba code that calls it is, too
        if (function, signature) not in made:
            made[function, signature] = self.make_exact(found, function, signature)
        return made[function, signature]

    def make_exact(self, found: Any, function: str, signature: tuple[types.Type, ...]) -> Any:
        """Compile, load from disk, or take over what numba compiled because the entry calls it; and the reverse: the
        entry calls a kernel that is there already."""
        exact: Any = ExactDispatcher(found.py_func, targetoptions=dict(found.targetoptions))
        if self.cache:
            exact._cache = KernelCache(Key.of(self.source, function, signature))
        ready = found.overloads.get(signature)
        if ready is None:
            exact.compile(signature)
            self.loaded_from_cache = bool(exact.stats.cache_hits)
            found.add_overload(exact.overloads[signature])
        else:
            exact.add_overload(ready)
            exact._cache.save_overload(signature, ready)
        return exact


class CompiledModule(GeneratedModule):
    """The module of a program, with its entry and its kernel as exact numba functions.

    `direct`: calls go into the kernel, for NumPy makes arrays in less time than numba takes to hand one over. The entry
    then serves `@njit` code alone. Scalar gradients are cheaper to get from the entry. `sharing`: see `threads.Sharing`.
    """

    def __init__(self, source: str, name: str, params: tuple[Type, ...], gradients: tuple[Type, ...], *, cache: bool,
                 sharing: Any = None) -> None:
        super().__init__(source, name, cache=cache)
        self.sharing = sharing
        self.param_types = tuple(numba_type(t) for t in params)
        self.buffer_types = tuple(numba_type(t, buffer=True) for t in gradients)
        self.direct = bool(gradients) and all(t.rank for t in gradients)

    @cached_property
    def called(self) -> Any:
        """What a call runs."""
        return self.kernel if self.direct else self.entry

    @cached_property
    def entry(self) -> Any:
        """The numba function `entry(*params) -> (value, ..., *gradients)`."""
        return self.exact(self.name, self.param_types)

    @cached_property
    def kernel(self) -> Any:
        """The numba function `kernel(*params, *gradient_buffers) -> value`."""
        return self.exact(f"{self.name}_kernel", self.param_types + self.buffer_types)


def load_module(source: str, name: str) -> python_types.ModuleType:
    """The module of a generated source text. The same text gives the same module; tracebacks and pdb show its lines."""
    digest = hashlib.sha256(source.encode()).hexdigest()[:16]
    module_name = f"adcompile_kernels.{name}_{digest}{'_plain' if NUMBA.DISABLE_JIT else ''}"
    found = sys.modules.get(module_name)
    if found is not None:
        return found
    filename = f"<adcompile {name} {digest}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    module = python_types.ModuleType(module_name)
    module.__file__ = filename
    sys.modules[module_name] = module           # numba looks the module up by name when it loads machine code
    try:
        exec(compile(source, filename, "exec"), module.__dict__)
    except BaseException:
        del sys.modules[module_name]
        raise
    return module
