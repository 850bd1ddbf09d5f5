"""A compiled function inside the user's own `@njit` code: `value, grad = f(x, y)`, `value = f.value(x, y)`.

numba asks `Face`, a dispatcher of its own kind, what a call with these types returns. It answers with an adapter, a few
lines of generated code around the entry of the right specialisation. Captured values are frozen there, as numba freezes
globals; guards are checked at run time by the kernel and raise `ValueError`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numba
from numba import types
from numba.core.errors import TypingError
from numba.core.imputils import lower_getattr_generic
from numba.core.registry import CPUDispatcher
from numba.core.typing import make_concrete_template
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.core.typing.typeof import typeof

from ..ir.signature import Argument, Leaf, Static, Tree
from ..ir.types import DType, Type
from .call import CallWriter
from .compile import numba_type
from .convert import convert
from .dispatch import Specialisation, check_holds, read, same_value

Arguments = dict[str, types.Type]
TUPLE: Any = types.BaseTuple                # numba's attributes are unknown to type checkers
NAMED: Any = types.BaseNamedTuple


class Face(CPUDispatcher):
    """What numba sees of a compiled function. `choose(types by argument)` gives the specialisation, `value()` the face of
    the function without its gradient."""

    def __init__(self, name: str, signature: inspect.Signature, choose: Callable[[Arguments], Specialisation],
                 value: Callable[[], Face] | None = None) -> None:
        super().__init__(CallWriter.stub(name, signature), targetoptions={"nopython": True})
        self.choose, self.value = choose, value
        self.adapters: dict[tuple[types.Type, ...], Any] = {}

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """The type of a call: that of the adapter for these argument types."""
        pysig, folded = self.fold_argument_types(args, kws)
        taken = tuple(types.unliteral(t) for t in folded)
        if taken not in self.adapters:
            arguments = dict(zip(pysig.parameters, taken))
            adapter = make_adapter(self.choose(arguments), arguments)
            adapter.compile(taken)
            self.adapters[taken] = adapter
        signatures = self.adapters[taken].nopython_signatures
        template = make_concrete_template(f"CallTemplate({self.py_func.__name__})", self.py_func.__name__, signatures)
        return template, pysig, taken, {}

    def get_overload(self, sig: Any) -> Any:
        """The machine code for the argument types of a signature that `get_call_template` gave."""
        return self.adapters[tuple(sig)].get_overload(sig)


@infer_getattr
class FaceAttributes(AttributeTemplate):
    """The attributes of a compiled function inside @njit code: `f.value`."""

    key = types.Dispatcher

    def generic_resolve(self, value: Any, attr: str) -> Any:             # type: ignore[override]
        """The type of an attribute; an error for those that only Python code has."""
        face = value.dispatcher
        if not isinstance(face, Face) or attr.startswith("__"):
            return None
        if attr == "value" and face.value is not None:
            return types.Dispatcher(face.value())
        name = face.py_func.__name__
        there = f"{name}(...)" if face.value is None else f"{name}(...) or {name}.value(...)"
        raise TypingError(f"{name}.{attr} cannot be used inside @njit code: call {there} there, or get {name}.kernel(...) "
                          "outside")


@lower_getattr_generic(types.Dispatcher)                # type: ignore[untyped-decorator]
def lower_attribute(context: Any, builder: Any, function: Any, value: Any, attribute: str) -> Any:
    """Functions have no machine value."""
    return context.get_dummy_value()


def make_adapter(specialisation: Specialisation, arguments: Arguments) -> Any:
    """The njit function that takes the user's arguments, calls the entry and puts the result together."""
    if specialisation.signature.retain:
        raise TypingError(f"{specialisation.function.name} was compiled with retain=, which is not supported inside @njit code")
    writer = CallWriter(specialisation.signature, has_gradient=specialisation.has_gradient)
    inputs = []
    for k, (source, param) in enumerate(zip(specialisation.signature.inputs, specialisation.head.params)):
        if isinstance(source.access.root, Argument):
            text = writer.read(source.access)
            inputs.append(f"float({text})" if param.type.rank == 0 and param.type.dtype.is_float else text)
        else:
            frozen = convert(read(source.access, {}), param.type, wrt=False, lenient=True)
            inputs.append(writer.bind(f"frozen{k}", frozen))
    flat = f"{writer.prefix}flat"
    text = (f"def {specialisation.head.name}({', '.join(arguments)}):\n"
            f"    {flat} = {writer.prefix}entry({', '.join(inputs)})\n"
            f"    return {writer.result(flat, specialisation.primal)}\n")
    entry = getattr(specialisation.module.module, specialisation.module.name)
    return numba.njit(nogil=True)(writer.make(specialisation.head.name, text, entry, None, tuple))


def fits(specialisation: Specialisation, arguments: Arguments) -> bool:
    """Whether a specialisation takes arguments of these numba types, and its captured objects are as they were."""
    found: dict[int, types.Type] = {}
    signature = specialisation.signature
    if not all(collect(arguments.get(name), tree, found) for name, tree in signature.arguments.items()):
        return False
    try:
        checks = all(check_holds(c, {}) for c in signature.checks if not isinstance(c.access.root, Argument))
    except (LookupError, AttributeError):
        return False
    return checks and all(accepts(param.type, found[k], wrt=k in specialisation.wrt)
                          for k, param in enumerate(specialisation.head.params) if k in found)


def collect(given: Any, tree: Tree, found: dict[int, types.Type]) -> bool:
    """Match a numba type with the structure of an argument; the leaves' types go into `found`."""
    if isinstance(tree, Leaf):
        if given is None:
            return False
        found[tree.index] = typeof(given.value) if isinstance(given, types.Omitted) else given
        return True
    if isinstance(given, types.Omitted):
        return isinstance(tree, Static) and same_value(given.value, tree.value)
    if isinstance(tree, Static):
        return isinstance(given, types.NoneType) and tree.value is None
    if not isinstance(given, TUPLE) or len(given) != len(tree.children):
        return False
    kind = given.instance_class if isinstance(given, NAMED) else tuple
    return kind is tree.kind and all(collect(g, t, found) for g, t in zip(given.types, tree.children))


def accepts(param: Type, given: types.Type, *, wrt: bool) -> bool:
    """Whether a value of this numba type can be passed for a parameter."""
    taken = numba_type(param)
    if isinstance(taken, types.Array):
        return isinstance(given, types.Array) and given.dtype == taken.dtype and given.ndim == taken.ndim
    return bool(given == taken) or (wrt and isinstance(given, types.Integer) and isinstance(taken, types.Float))


Abstract = Callable[[DType, int], Any]


def example(arguments: Arguments, name: str, abstract: Abstract) -> dict[str, Any]:
    """Stand-ins for values of these types, to capture with when no call was made yet. `abstract(dtype, rank)` makes one."""
    return {argument: stand_in(t, f"{name}: argument {argument!r}", abstract) for argument, t in arguments.items()}


def stand_in(given: Any, text: str, abstract: Abstract) -> Any:
    if isinstance(given, types.Omitted):
        return given.value
    if isinstance(given, NAMED):
        return given.instance_class(*[stand_in(t, text, abstract) for t in given.types])
    if isinstance(given, TUPLE):
        return tuple(stand_in(t, text, abstract) for t in given.types)
    if isinstance(given, types.NoneType):
        return None
    scalar = given.dtype if isinstance(given, types.Array) else given
    if isinstance(scalar, (types.Number, types.Boolean)):
        return abstract(DType(scalar.name), given.ndim if isinstance(given, types.Array) else 0)
    raise TypingError(f"{text} has type {given}, which a compiled gradient does not take inside @njit code")
