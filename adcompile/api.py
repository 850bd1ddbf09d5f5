"""What a user holds: `compile_grad`, `compile_value`, and the objects they give."""

from __future__ import annotations

import functools
import inspect
import pickle
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numba import cloudpickle, types

from .capture.arguments import python_signature
from .capture.driver import Abstract, capture, capture_types
from .emit.vectorise import HEADING
from .errors import CaptureError, DifferentiationError, UnsupportedOp
from .inspect.view import View
from .ir.core import Location
from .ir.printer import text_of
from .pipeline import Compiled, Options, compile_function, inner_gradient, specialise
from .runtime import dispatch, njit
from .runtime.dispatch import Dispatch, Specialisation
from .runtime.method import share_method

if TYPE_CHECKING:
    from .inspect.cost import Cost
    from .inspect.paths import Paths
    from .inspect.shown import Graph
    from .inspect.symbolic import Formulas


class Text(str):
    """Text that prints as it is."""

    def __repr__(self) -> str:
        return str(self)


class Source(Text):
    """Generated Python: needs numpy and numba, and nothing else."""

    def save(self, path: str | Path) -> Path:
        """Write it to a file that can be imported, read and shipped; returns the path."""
        path = Path(path)
        path.write_text(self, encoding="utf-8")
        return path

    @property
    def head(self) -> Text:
        """The module without the elementary functions at its end, which are the same in all modules."""
        return Text(self.partition(HEADING)[0].rstrip("\n") + "\n")


class CompiledFunction:
    """A function compiled on its first call for the types it is called with, and again when a guard says so.

    Each object has a class of its own, so that calling it runs the generated function with nothing in between.
    """

    gradient = False
    gradient_only = False

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return object.__new__(type(cls.__name__, (cls,), {"__module__": cls.__module__, "__doc__": cls.__doc__}))

    def __init__(self, function: Any, options: Options, args: Any = None, functions: Any = None) -> None:
        self.options, self.sympy_args, self.sympy_functions = options, args, functions
        self.function = function
        self.is_method = False
        self.expression: Any = None
        expression = None if args is None else self.capture_sympy().signature
        python = expression.python if expression else signature_of(function)
        name = options.name or (expression.name if expression else name_of(function))
        if expression is None:
            check_wrt(options, python, name, function)
            plain = inspect.isfunction(python_function(function))       # the attributes of other objects may be called as ours
            functools.update_wrapper(self, python_function(function), updated=("__dict__",) if plain else ())
        self.__signature__ = python
        self.dispatch = Dispatch(name, python, self.specialise, self.install)
        value_face = self.value_face if self.gradient else None
        self.face = njit.Face(name if name.isidentifier() else "f", python, self.choose, value_face)

    # ------------------------------------------------------------------------------------------------ calling
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The first call; later ones run the generated function that `install` put here."""
        takes_out = self.gradient and "out" not in self.dispatch.signature.parameters
        out = kwargs.pop("out", None) if takes_out else None
        return self.dispatch.slow(args, kwargs, out)

    def install(self, fast: Callable[..., Any]) -> None:
        """Let a generated function answer all calls."""
        type(self).__call__ = staticmethod(fast)        # type: ignore[method-assign]

    def specialise(self, args: tuple, kwargs: dict[str, Any]) -> Specialisation:
        """Capture and compile for a call like this one."""
        started = time.perf_counter()
        captured = self.capture(args, kwargs) if self.expression is None else self.capture_sympy(self.dispatch.bind(args, kwargs))
        made = specialise(captured, self.options, time.perf_counter() - started)
        made.any_number = self.expression is not None
        return made

    def capture(self, args: tuple, kwargs: dict[str, Any], *, abstract: bool = False) -> Any:
        """The captured function, for a call like this one; `abstract`: of which only types are known."""
        options = self.options
        if self.expression is not None:
            return self.expression
        wanted = {"wrt": options.wrt if self.gradient else None, "has_aux": options.has_aux, "dtype": options.dtype,
                  "name": options.name, "scalar": self.gradient, "gradient": inner_gradient, "retain": options.retain}
        if self.is_method:
            bound = self.function.__get__(args[0])
            return share_method(capture(bound, args[1:], kwargs, **wanted), self.dispatch.signature, args[0])
        return (capture_types if abstract else capture)(self.function, args, kwargs, **wanted)

    def capture_sympy(self, call: Mapping[str, Any] | None = None) -> Any:
        """The captured expression; no call is needed to know its types. `call`: refused if it does not fit them."""
        from .capture.sympy_expr import capture_sympy, check_call
        stale = self.sympy_functions is not None and call is not None       # what they read may have changed
        if self.expression is None or stale:
            options = self.options
            self.expression = capture_sympy(self.function, options.wrt if self.gradient else None, self.sympy_args, options.name,
                                            has_aux=options.has_aux, dtype=options.dtype, functions=self.sympy_functions)
        if call is not None:
            check_call(self.expression, call)
        return self.expression

    def compile(self) -> Self:
        """After `compile="lazy"`: make the machine code now; calls run it from then on."""
        self.options = replace(self.options, lazy=False)
        self.dispatch.finish()
        return self

    # ------------------------------------------------------------------------------------------------ as a method
    def __set_name__(self, owner: type, name: str) -> None:
        self.is_method = True

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None or not self.is_method else BoundMethod(self, instance)

    # ------------------------------------------------------------------------------------------------ inside @njit
    @property
    def _numba_type_(self) -> types.Dispatcher:
        return types.Dispatcher(self.face)

    def value_face(self) -> njit.Face:
        """What numba sees of `f.value`."""
        value: CompiledValue = self.value           # type: ignore[attr-defined]
        return value.face

    def choose(self, arguments: njit.Arguments) -> Specialisation:
        """The specialisation for a call with these numba types inside `@njit` code; made from the types if need be."""
        with dispatch.LOCK:
            for known in self.dispatch.specialisations:
                if known.finish is None and njit.fits(known, arguments):
                    return known
            call = self.dispatch.signature.bind_partial()
            call.arguments.update(njit.example(arguments, self.dispatch.name, Abstract))
            captured = self.capture(call.args, call.kwargs, abstract=True)
            made = specialise(captured, replace(self.options, lazy=False))
            made.any_number = self.expression is not None
            if not njit.fits(made, arguments):
                given = ", ".join(f"{name}: {t}" for name, t in arguments.items())
                raise njit.TypingError(f"{self.dispatch.name} cannot be called with ({given}) inside @njit code")
            self.dispatch.specialisations.append(made)
            return made

    # ------------------------------------------------------------------------------------------------ looking inside
    @property
    def specialisations(self) -> tuple[Specialisation, ...]:
        """What has been compiled so far, one for each meaning that calls had."""
        return tuple(self.dispatch.specialisations)

    @property
    def latest(self) -> Specialisation:
        """The specialisation that answered the last new kind of call."""
        found = self.dispatch.latest or next(reversed(self.dispatch.specialisations), None)
        if found is None:
            raise CaptureError(f"{self.dispatch.name} has not been called yet, so the types of its arguments are not known",
                               location_of(self.function), "Call it once, then look inside.")
        return found

    @property
    def compiled(self) -> Compiled:
        """All stages of the last specialisation."""
        found: Compiled = self.latest.stages
        return found

    @property
    def source(self) -> Source:
        """The generated Python of the last specialisation."""
        return Source(self.latest.source)

    @property
    def ir(self) -> Text:
        """The graph IR that was scheduled: after differentiation and all passes."""
        return Text(text_of(self.latest.function))

    @property
    def ir_stages(self) -> dict[str, Text]:
        """The graph IR after capture, after autodiff, after the passes."""
        return {name: Text(text_of(graph)) for name, graph in self.compiled.graphs.items()}

    @property
    def loop_ir(self) -> Text:
        """The loop nests of the last specialisation."""
        return Text(self.compiled.stage("loops"))

    @property
    def guards(self) -> tuple[str, ...]:
        """What the last specialisation assumes; calls where it does not hold get another one."""
        return self.latest.guards

    @property
    def constants(self) -> tuple[str, ...]:
        """The arguments and captured values of the last specialisation that take no gradient, as the user writes them."""
        return self.latest.signature.constants

    @property
    def inactive(self) -> tuple[str, ...]:
        """What lets no gradient through in the last specialisation: arguments that do not reach the result, and operations with
        derivative zero (`floor`, `stop_gradient`, ...) that depend on what is differentiated; each with its reason."""
        from .inspect.inactive import inactive_lines
        return inactive_lines(View(self.compiled))

    def view(self, args: tuple, kwargs: dict[str, Any]) -> View:
        """What the pictures and lists below show: the function as a call like this one means it, with the call's values; without
        arguments, as the last call meant it."""
        if not args and not kwargs and (self.dispatch.signature.parameters or self.specialisations):
            if self.expression is None:
                return View(self.compiled)
            return View(compile_function(self.expression, self.options, until="emit"))
        arguments = self.dispatch.bind(args, kwargs)
        found = self.dispatch.find(arguments)
        if found is not None:
            return View(found[0].stages, found[1])
        captured = self.capture(args, kwargs) if self.expression is None else self.capture_sympy(arguments)
        return View.of_call(compile_function(captured, self.options, until="emit"), arguments)

    def graph(self, *args: Any, **kwargs: Any) -> Graph:
        """The computation graph as captured: values as nodes (leaves green, operations blue, constants white, what takes no
        gradient grey), local derivatives on the edges. With arguments, values and cotangents of that call are shown; without,
        the graph of the last call. Shows itself in notebooks; `.save("loss.svg")`, also .html, .dot and .mermaid."""
        from .inspect.cost import cost_texts
        from .inspect.graph import model_of
        from .inspect.shown import Graph
        view = self.view(args, kwargs)
        return Graph(model_of(view, cost_texts(view)))

    def paths(self, wrt: Any = None, at: tuple | Mapping[str, Any] | None = None, most: int = 10) -> Paths:
        """Every path from an argument to the result, with its factors and their product; their sum is the gradient. `wrt`: the
        argument, by name or position; `at`: the arguments of the call (a dict: by name), without which the factors are symbols;
        `most`: how many to list, the largest first. Their number is exact however large."""
        from .inspect.paths import paths_of
        args, kwargs = ((), dict(at)) if isinstance(at, Mapping) else (tuple(at or ()), {})
        return paths_of(self.view(args, kwargs), wrt, most)

    def cost(self, *args: Any, machine: bool = False, **kwargs: Any) -> Cost:
        """What a call computes: arithmetic and calls of functions, forward and backward, per line and per operation; bytes moved,
        residuals, memory. Polynomials in the sizes; with arguments, numbers too. `machine`: measure this machine and a call,
        and compare."""
        from .inspect.cost import cost_of, fastest, measured
        found = cost_of(self.view(args, kwargs))
        if machine:
            found.machine = measured(fastest(lambda: self(*args, **kwargs)))
        return found

    def explain(self, *args: Any, **kwargs: Any) -> Text:
        """One page: what was captured, what each line became forward and backward, which loops there are and what is kept between
        them, work and memory, guards, specialisations and cache hits, time for each stage. For arguments like these, or those of
        the last call."""
        from .inspect.explain import explain
        return Text(explain(self.view(args, kwargs), self.specialisations))

    def to_sympy(self, *args: Any, **kwargs: Any) -> Formulas:
        """The function and its gradient in SymPy: `.value`, `.gradient` by argument, and `.where` for what they share. Arrays are
        written entry by entry, sums over their indices. For arguments like these, or those of the last call."""
        from .inspect.symbolic import formulas_of
        return formulas_of(self.view(args, kwargs))

    def latex(self, *args: Any, **kwargs: Any) -> Text:
        """What `to_sympy` gives, as LaTeX."""
        return Text(self.to_sympy(*args, **kwargs).latex())

    def kernel(self, *example_args: Any, **example_kwargs: Any) -> Any:
        """The numba function underneath, for arguments like these:
        `kernel(*array_and_number_leaves, *captured_values, *gradient_buffers) -> value`."""
        specialisation, _ = self.dispatch.find_or_make(example_args, example_kwargs)
        return specialisation.module.kernel

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.dispatch.name}{self.dispatch.signature}>"

    # ------------------------------------------------------------------------------------------------ pickling
    def __reduce__(self) -> Any:
        """By reference where it can be found under its name, else as its function and options; workers compile again, or
        load the machine code from the disk cache."""
        name = getattr(self, "__qualname__", "")
        module = inspect.getmodule(self.function) if callable(self.function) else None
        if module is not None and lookup(module, name) is self:
            return name
        return rebuild, (type(self).__mro__[1], cloudpickle.dumps(self.function), self.options,
                         pickle.dumps(self.sympy_args), cloudpickle.dumps(self.sympy_functions))


def rebuild(kind: type[CompiledFunction], function: bytes, options: Options, args: bytes, functions: bytes) -> CompiledFunction:
    """What a pickle of a compiled function calls."""
    return kind(cloudpickle.loads(function), options, pickle.loads(args), cloudpickle.loads(functions))


def lookup(module: Any, qualname: str) -> Any:
    """The object of this qualified name in a module, None if there is none."""
    found = module
    for part in qualname.split("."):
        found = inspect.getattr_static(found, part, None)
    return found


class CompiledValue(CompiledFunction):
    """`f(*args) -> value`: the function itself, compiled."""


class CompiledGrad(CompiledFunction):
    """`f(*args) -> (value, gradient)`, one fused kernel. `f(*args, out=g)` writes the gradient into g."""

    gradient = True

    @functools.cached_property
    def value(self) -> CompiledValue:
        """`f.value(*args)`: the value alone, a kernel of its own."""
        return CompiledValue(self.function, replace_options(self.options), self.sympy_args, self.sympy_functions)

    def grad(self, *args: Any, **kwargs: Any) -> Any:
        """`f.grad(*args)`: the gradient alone."""
        return self(*args, **kwargs)[1]


class Gradient:
    """`ad.grad(f)`: a function that gives the gradient alone."""

    gradient = gradient_only = True

    def __init__(self, compiled: CompiledGrad) -> None:
        self.compiled, self.function, self.options = compiled, compiled.function, compiled.options
        self.__name__, self.__doc__ = name_of(compiled.function), "The gradient of " + name_of(compiled.function)
        self.__signature__ = compiled.dispatch.signature

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The gradient."""
        return self.compiled.grad(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<gradient of {self.__name__}{self.__signature__}>"


class BoundMethod:
    """A compiled method of one object: `model.loss(w)` is `Model.loss(model, w)`."""

    def __init__(self, compiled: CompiledFunction, instance: Any) -> None:
        self.compiled, self.instance = compiled, instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the compiled function with the object in first place."""
        return self.compiled(self.instance, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "compiled":         # copy and pickle ask before there is anything
            raise AttributeError(name)
        found = getattr(self.compiled, name)
        if name in ("value", "grad", "kernel", "graph", "cost", "to_sympy", "latex", "explain"):
            return functools.partial(found, self.instance)
        return found

    def __repr__(self) -> str:
        return f"<bound {self.compiled!r} of {self.instance!r}>"


# ---------------------------------------------------------------------------------------------------- options
def replace_options(options: Options) -> Options:
    """The options of the value alone."""
    return Options(False, (), options.has_aux, options.dtype, options.cache, options.fastmath, options.debug, options.name,
                   parallel=options.parallel, lazy=options.lazy)


def check_options(parallel: Any, checkpoint: Any, dtype: Any, compile: Any) -> None:
    """Refuse options that would do nothing."""
    if compile not in ("now", "lazy"):
        raise UnsupportedOp(f'compile={compile!r} is neither "now" nor "lazy"', do='Leave compile="now".')
    if not (parallel == "auto" or isinstance(parallel, int) and (parallel is False or parallel >= 1)):
        raise UnsupportedOp(f"parallel={parallel!r} is neither a number of threads, nor True, False or \"auto\"",
                            do='Leave parallel="auto": big calls are then shared by all cores.')
    if checkpoint is not None and (not isinstance(checkpoint, int) or checkpoint is not False and checkpoint < 1):
        raise UnsupportedOp(f"checkpoint={checkpoint!r} is neither a number of checkpoints, nor True, False or None",
                            do="Leave checkpoint=None: loops that would need much memory are then checkpointed.")
    if dtype is not None and np.dtype(dtype) not in (np.dtype("float32"), np.dtype("float64")):
        raise DifferentiationError(f"dtype={dtype!r} is not a real floating point type", do="Use float64 or float32.")


def check_wrt(options: Options, python: inspect.Signature, name: str, function: Any) -> None:
    """Refuse a `wrt` that names no argument."""
    if not options.gradient or not callable(function):
        return
    several = isinstance(options.wrt, (tuple, list))
    if several and not options.wrt:
        raise DifferentiationError("wrt is empty: there is nothing to differentiate with respect to", location_of(function),
                                   f"Name arguments of {name}{python}.")
    names = list(python.parameters)
    for one in options.wrt if several else (options.wrt,):
        if isinstance(one, bool) or not isinstance(one, (int, str)):
            raise DifferentiationError(f"wrt={one!r} is neither an argument's name nor its position", location_of(function),
                                       f"The arguments are {name}{python}.")
        if not names_argument(one, python):
            raise DifferentiationError(f"wrt={one!r} is not an argument of {name}{python}", location_of(function),
                                       f"Use one of {', '.join(map(repr, names)) or 'its arguments (it has none)'}.")


def names_argument(one: int | str, python: inspect.Signature) -> bool:
    """Whether a name or position can mean an argument; what *args and **kwargs hold is only known at a call."""
    kinds = {p.kind for p in python.parameters.values()}
    if isinstance(one, str):
        return one in python.parameters or inspect.Parameter.VAR_KEYWORD in kinds
    return inspect.Parameter.VAR_POSITIONAL in kinds or -len(python.parameters) <= one < len(python.parameters)


def is_sympy(thing: Any) -> bool:
    """Whether it comes from SymPy (which is not imported to find out): expressions, and lists of them and numbers."""
    if isinstance(thing, (list, tuple)):
        return any(map(is_sympy, thing)) and all(isinstance(x, (int, float)) or is_sympy(x) for x in thing)
    return any((t.__module__ or "").split(".")[0] == "sympy" for t in type(thing).__mro__)


def python_function(function: Any) -> Any:
    """The Python function behind a numba dispatcher; else the thing itself."""
    return getattr(function, "py_func", function)


def signature_of(function: Any) -> inspect.Signature:
    """How it is called."""
    if isinstance(function, np.ufunc):
        return python_signature(function)
    try:
        return inspect.signature(python_function(function))
    except (TypeError, ValueError):
        raise CaptureError(f"{function!r} is not a Python function whose arguments can be known",
                           do="Wrap it: def f(x): return ...") from None


def name_of(function: Any) -> str:
    """What to call it in messages."""
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__name__", None) or type(function).__name__)


def location_of(function: Any) -> Location | None:
    """Where it is defined."""
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(inspect.unwrap(python_function(function)) if callable(function) else None, "__code__", None)
    return Location(code.co_filename, code.co_firstlineno, code.co_name) if code else None


# ---------------------------------------------------------------------------------------------------- entry points
def compile_grad(f: Any = None, *, wrt: Any = 0, args: Any = None, functions: Any = None, has_aux: bool = False,
                 dtype: Any = None, parallel: Any = "auto", checkpoint: Any = None, cache: bool = True, fastmath: bool = True,
                 debug: bool = False, name: str | None = None, retain: tuple[str, ...] | str = (), compile: str = "now") -> Any:
    """Compile a function's value and gradient into one kernel: `f(*args) -> (value, gradient)`.

    **Arguments** `f`: a function of NumPy arrays and numbers that returns a real scalar (also a lambda, method, partial,
    `@njit` function), or a SymPy expression with `args=[its symbols in call order]` (default: `wrt`). `functions`: Python
    functions for its undefined ones, `{"f": value}`, or `{"f": (value, derivative)}` where the derivative is to be another one
    than that of the code. `wrt`: the argument(s)
    to differentiate, by position or name (of an expression also by symbol); a tuple gives a tuple of gradients. `has_aux`: f
    returns `(value, aux)`. `dtype`: compute in float32 or float64 whatever the floats that come in. `cache`: keep machine code
    on disk. `fastmath`: sums may be reordered (NaN and infinity keep their meaning). `debug`: run in the interpreter and stop
    at the first NaN or infinity. `name`: in generated code and messages. `checkpoint`: how many states of a long loop are kept,
    the turns between them running again for the gradient; True: about the square root of its turns; False: all; default: all,
    unless they take more than 256 MB. `parallel`: how many threads share a call that has much to do; "auto", True: as many as
    numba takes (NUMBA_NUM_THREADS); False: one; a number or True is refused where no loop can be shared. Results depend on the
    number of threads alone. `retain`: names of values in the function (`x = ad.named(x, "f1")`) whose gradients are returned as
    well: `f(*args) -> (value, gradient, {"f1": ...})`. `compile`: "lazy" for huge scalar programs (SymPy expressions of 10^4
    operations and more), for which machine code takes minutes: they run at once on a machine that works through a list of
    instructions, some ten times as slow, until `f.compile()` makes the machine code (not in the background: Python's lock
    would stop the calls meanwhile). Functions of arrays are compiled at their first call in any case.

    **Returns** a `CompiledGrad`; without `f`, a decorator.

        >>> import numpy as np
        >>> f = compile_grad(lambda x: np.sum(x**2))
        >>> f(np.array([1.0, 2.0]))
        (5.0, array([2., 4.]))
    """
    if f is None and args is None:
        return functools.partial(compile_grad, wrt=wrt, has_aux=has_aux, dtype=dtype, parallel=parallel, checkpoint=checkpoint,
                                 cache=cache, fastmath=fastmath, debug=debug, name=name, retain=retain, compile=compile)
    if args is None and is_sympy(f) and is_sympy(wrt):
        args = wrt
    f, wrt, args = over_arrays(f, wrt, args, functions, name)
    check_options(parallel, checkpoint, dtype, compile)
    wrt = tuple(wrt) if isinstance(wrt, list) else wrt
    retain = (retain,) if isinstance(retain, str) else tuple(retain)
    if retain and (args is not None or is_sympy(f)):
        raise UnsupportedOp("retain= of a SymPy expression: its parts have no names", do="Write it as a Python function.")
    options = Options(True, wrt, has_aux, dtype, cache, fastmath, debug, name, checkpoint, parallel, retain,
                      compile == "lazy")
    return CompiledGrad(checked_function(f, args, functions), options, args, functions)


def compile_value(f: Any = None, *, args: Any = None, functions: Any = None, dtype: Any = None, parallel: Any = "auto",
                  checkpoint: Any = None, cache: bool = True, fastmath: bool = True, debug: bool = False,
                  name: str | None = None, compile: str = "now") -> Any:
    """Compile a function as it is: `f(*args) -> value`, any tree of arrays and numbers. Options as in `compile_grad`.

        >>> import numpy as np
        >>> f = compile_value(lambda x: np.mean(np.exp(x)))
        >>> f(np.zeros(3))
        1.0
    """
    if f is None and args is None:
        return functools.partial(compile_value, dtype=dtype, parallel=parallel, checkpoint=checkpoint, cache=cache,
                                 fastmath=fastmath, debug=debug, name=name, compile=compile)
    f, _, args = over_arrays(f, None, args, functions, name)
    check_options(parallel, checkpoint, dtype, compile)
    options = Options(False, (), False, dtype, cache, fastmath, debug, name, parallel=parallel,
                      lazy=compile == "lazy")
    return CompiledValue(checked_function(f, args, functions), options, args, functions)


def value_and_grad(f: Any, wrt: Any = 0, has_aux: bool = False) -> Any:
    """`value_and_grad(f)(*args) -> (value, gradient)`; also inside of functions that are compiled, also of gradients."""
    return compile_grad(f, wrt=wrt, has_aux=has_aux)


def grad(f: Any, wrt: Any = 0, has_aux: bool = False) -> Any:
    """`grad(f)(*args) -> gradient`; also inside of functions that are compiled, also of gradients: `grad(grad(f))`.

        >>> grad(grad(lambda x: x**3))(2.0)
        12.0
    """
    return Gradient(compile_grad(f, wrt=wrt, has_aux=has_aux))


def over_arrays(f: Any, wrt: Any, args: Any, functions: Any, name: str | None) -> tuple[Any, Any, Any]:
    """A SymPy expression over arrays as a function that is captured call by call; everything else as it is."""
    if args is None or not is_sympy(f):
        return f, wrt, args
    from .capture.sympy_arrays import array_function, needs_arrays
    if not needs_arrays(f, args):
        return f, wrt, args
    if functions is not None:
        raise UnsupportedOp("functions= together with sums, products or matrix expressions",
                            do="Write the whole as a Python function of arrays.")
    function, places = array_function(f, wrt, args, name)
    return function, places, None


def checked_function(f: Any, args: Any, functions: Any = None) -> Any:
    """The thing to compile, refused where it is neither a function nor a SymPy expression."""
    if isinstance(f, CompiledFunction):
        return f.function
    if is_sympy(f):
        if args is None:
            raise CaptureError("a SymPy expression needs args, its symbols in the order of the call",
                               do="compile_grad(expr, wrt=[x, y], args=[x, y, a])")
        return f
    if args is not None or functions is not None:
        given = "functions" if args is None else "args"
        raise CaptureError(f"{given} is for SymPy expressions; a Python function has its own", location_of(f))
    if not callable(f):
        raise CaptureError(f"this {type(f).__name__} is not a function", do="Pass a Python function or a SymPy expression.")
    return f
