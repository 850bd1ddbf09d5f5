"""READ FIRST: the compiler as one list of named passes.

    a Python function (or a SymPy expression) and one call of it
        -- capture     --> typed graph IR                     capture/     (what was read, assumed, which leaves are inputs)
        -- autodiff    --> graph with the adjoint appended    differentiate/
        -- passes      --> the same meaning, less work        optimize/
        -- schedule    --> loop nests                         schedule/
        -- emit        --> readable Python source             emit/
        -- compile     --> machine code                       runtime/

Every arrow is a plain function from one printable value to the next. `PASSES` lists them with what each needs, gives, and
keeps exact. `compile_function` runs the list and keeps every stage with its time. With ADCOMPILE_VERIFY=1 (all tests run so)
the graph is verified after each pass.
"""

from __future__ import annotations

import gc
import itertools
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from .differentiate.reverse import value_and_grad
from .emit.emit import emit
from .emit.tape import NoTape, tape_of
from .emit.threads import emit_threads
from .errors import UnsupportedOp, VerifyError
from .ir.core import Function, walk
from .ir.dims import Dim
from .ir.loops import Cut, Interface, Program
from .ir.printer import text_of
from .ir.signature import Signature, leaves
from .ir.verifier import verify
from .optimize.cse import cse
from .optimize.dce import dce
from .optimize.hoist import hoist
from .optimize.kinks import erase_kinks
from .optimize.marks import erase_marks
from .optimize.raise_loops import raise_loops
from .optimize.shift import detach_shifts
from .optimize.simplify import simplify
from .optimize.slopes import keep_slopes
from .optimize.stencils import gather_stencils
from .optimize.unpack import unpack
from .runtime.cache import Key, recall, remember
from .runtime.compile import CompiledModule
from .runtime.debug import InterpretedModule
from .runtime.dispatch import Specialisation
from .runtime.tape import TapeModule
from .runtime.threads import Sharing, ThreadedModule, thread_count
from .schedule.schedule import LANES, schedule
from .schedule.threads import cut
from .version import __version__

TYPICAL = 1000              # stands for a size that is not known yet


class Level(Enum):
    """What a value between two passes is."""

    GRAPH = "graph IR"
    LOOPS = "loop IR"
    SOURCE = "Python source"
    KERNEL = "machine code"


class Meaning(Enum):
    """What a pass does to the meaning: how its output is compared with its input in tests."""

    EXACT = "the same value, bit for bit"
    REASSOCIATES = "the same value up to rounding: sums and products may be reordered"
    DIFFERENTIATES = "the value, and the gradient after it"


@dataclass(frozen=True)
class Options:
    """What the user asked for; see `compile_grad`."""

    gradient: bool = True
    wrt: Any = 0
    has_aux: bool = False
    dtype: Any = None
    cache: bool = True
    fastmath: bool = True
    debug: bool = False
    name: str | None = None
    checkpoint: int | bool | None = None
    parallel: Any = "auto"
    retain: tuple[str, ...] = ()
    lazy: bool = False


@dataclass(frozen=True)
class Context:
    """What passes know besides the value they work on."""

    signature: Signature
    options: Options
    function: Function                      # the latest graph, for passes on later levels
    hints: Mapping[str, int] = field(default_factory=dict)     # the sizes of the call that was captured
    program: Program | None = None          # the loops, for what comes after them

    @property
    def wrt(self) -> tuple[int, ...]:
        """The parameters to differentiate, in the order of their gradients."""
        return tuple(i for tree in self.signature.wrt for i in leaves(tree)) if self.options.gradient else ()


@dataclass(frozen=True)
class Pass:
    """One step of the compiler. `stage`: the name under which its output is kept for the user."""

    name: str
    run: Callable[[Any, Context], Any]
    requires: Level
    ensures: Level
    meaning: Meaning
    stage: str
    gradient_only: bool = False


def run_raise(function: Function, context: Context) -> Function:
    """Do the independent turns of loops at once."""
    return raise_loops(function, context.hints)


def run_reverse(function: Function, context: Context) -> Function:
    """Append the adjoint: results are then the primal results, one cotangent a retained value, one a differentiated parameter."""
    return value_and_grad(function, context.wrt, context.options.checkpoint, context.hints, context.signature.retain)


def inner_gradient(function: Function, wrt: tuple[int, ...], checkpoint: int | bool | None, hints: Mapping[str, int]) -> Function:
    """The gradient of a function that is taken inside of another one: what capture calls."""
    return value_and_grad(dce(keep_slopes(raise_loops(dce(erase_kinks(function)), hints))), wrt, checkpoint, hints)


def run_schedule(function: Function, context: Context) -> Program:
    """Find the loop nests."""
    gradients = context.wrt
    interface = Interface(function.name, len(function.results) - len(gradients), gradients)
    return schedule(function, interface, lanes=LANES if context.options.fastmath else 0)


def run_emit(program: Program, context: Context) -> str:
    """Print the loop nests as Python."""
    return emit(program, fastmath=context.options.fastmath, header=f"generated by adcompile {__version__}")


def run_compile(source: str, context: Context) -> CompiledModule | InterpretedModule:
    """Machine code, from the disk cache where it is there; under `debug`, the interpreter in its place."""
    if context.options.debug:
        return InterpretedModule(context.function, source, len(context.wrt))
    program = context.program
    assert program is not None
    recipe = Recipe(source, context.function.head, shared_work(program, context))
    return build(recipe, context, lambda: program)


# ---------------------------------------------------------------------------------------------------- from text to code
@dataclass(frozen=True)
class Recipe:
    """All that is needed to run a function: what the passes are for, and what is kept on disk so that another process need not
    run them. `work`: of the loops that threads share, None where there are none."""

    source: str
    head: Function
    work: Dim | None


def build(recipe: Recipe, context: Context, program: Callable[[], Program]) -> CompiledModule:
    """The module of a recipe, compiled unless threads do all there is to do. `program`: gives the loops when asked."""
    params = tuple(p.type for p in recipe.head.params)
    buffers = tuple(recipe.head.params[i].type for i in context.wrt)
    sharing = share(recipe, context, program)
    module = CompiledModule(recipe.source, recipe.head.name, params, buffers, cache=context.options.cache, sharing=sharing)
    if sharing is None or not sharing.is_worth(context.hints):
        _ = module.called           # compiles
    return module


def shared_work(program: Program, context: Context) -> Dim | None:
    """How much there is to do in loops that threads can share."""
    found = cut_for(program, context) if thread_count(context.options.parallel) > 1 else None
    return found.work if found else None


def cut_for(program: Program, context: Context) -> Cut | None:
    """A program cut for calls of the captured sizes."""
    return cut(program, {s: context.hints.get(s, TYPICAL) for s in program.function.sizes})


def share(recipe: Recipe, context: Context, program: Callable[[], Program]) -> Sharing | None:
    """How threads share big calls; None where they do not. Raises where the user wants it and it cannot be done."""
    options = context.options
    threads = thread_count(options.parallel)
    if recipe.work is None:
        if options.parallel not in ("auto", False) and threads > 1:
            raise UnsupportedOp(f"parallel={options.parallel!r}: {recipe.head.name} has no loop whose turns are independent",
                                do='Leave parallel="auto": it then runs on one thread.')
        return None

    def make() -> ThreadedModule:
        pieces = cut_for(program(), context)
        assert pieces is not None
        source = emit_threads(pieces, fastmath=options.fastmath, header=f"generated by adcompile {__version__}")
        return ThreadedModule(source, recipe.head.name, cache=options.cache, threads=threads)

    return Sharing(recipe.work, make)


def run_tape(function: Function, context: Context) -> TapeModule | None:
    """The function on the tape machine; None where it is no scalar program."""
    try:
        return TapeModule(tape_of(function), len(context.wrt), cache=context.options.cache)
    except NoTape:
        return None


def graph_pass(function: Callable[[Function], Function]) -> Callable[[Function, Context], Function]:
    """A pass that needs no context."""
    return lambda value, context: function(value)


G, L, S, K = Level.GRAPH, Level.LOOPS, Level.SOURCE, Level.KERNEL

PASSES = (
    #    name             run                       needs gives  meaning                  kept as
    Pass("cse primal",    graph_pass(cse),          G,    G,     Meaning.EXACT,           "capture"),
    Pass("dce primal",    graph_pass(dce),          G,    G,     Meaning.EXACT,           "capture"),
    Pass("raise loops",   run_raise,                G,    G,     Meaning.REASSOCIATES,    "capture"),
    Pass("dce raised",    graph_pass(dce),          G,    G,     Meaning.EXACT,           "capture"),
    Pass("detach shifts", graph_pass(detach_shifts), G,  G,     Meaning.EXACT,           "capture", gradient_only=True),
    Pass("keep slopes",   graph_pass(keep_slopes),  G,    G,     Meaning.EXACT,           "capture", gradient_only=True),
    Pass("unpack primal", graph_pass(unpack),       G,    G,     Meaning.REASSOCIATES,    "capture"),
    Pass("reverse",       run_reverse,              G,    G,     Meaning.DIFFERENTIATES,  "autodiff", gradient_only=True),
    Pass("erase marks",   graph_pass(erase_marks),  G,    G,     Meaning.EXACT,           "passes"),
    Pass("simplify",      graph_pass(simplify),     G,    G,     Meaning.REASSOCIATES,    "passes"),
    Pass("stencils",      graph_pass(gather_stencils), G, G,   Meaning.REASSOCIATES,    "passes"),
    Pass("unpack",        graph_pass(unpack),       G,    G,     Meaning.REASSOCIATES,    "passes"),
    Pass("cse",           graph_pass(cse),          G,    G,     Meaning.EXACT,           "passes"),
    Pass("hoist",         graph_pass(hoist),        G,    G,     Meaning.EXACT,           "passes"),
    Pass("cse hoisted",   graph_pass(cse),          G,    G,     Meaning.EXACT,           "passes"),
    Pass("dce",           graph_pass(dce),          G,    G,     Meaning.EXACT,           "passes"),
    Pass("schedule",      run_schedule,             G,    L,     Meaning.REASSOCIATES,    "loops"),
    Pass("emit",          run_emit,                 L,    S,     Meaning.EXACT,           "source"),
    Pass("compile",       run_compile,              S,    K,     Meaning.REASSOCIATES,    "kernel"),
)

for before, after in itertools.pairwise(PASSES):
    if before.ensures is not after.requires:
        raise VerifyError(f"pass {after.name!r} needs {after.requires.value}, but {before.name!r} gives {before.ensures.value}")


@dataclass(frozen=True)
class Stage:
    """What one pass made."""

    name: str
    kept_as: str
    value: Any
    seconds: float


@dataclass(frozen=True)
class Compiled:
    """A compiled function with everything it went through, in order; the first stage is the capture."""

    signature: Signature
    options: Options
    stages: tuple[Stage, ...] = field(repr=False)

    def stage(self, kept_as: str) -> Any:
        """The last value kept under a name: capture, autodiff, passes, loops, source, kernel."""
        found = [s.value for s in self.stages if s.kept_as == kept_as]
        if not found:
            raise KeyError(f"no stage {kept_as!r}; there are {', '.join(dict.fromkeys(s.kept_as for s in self.stages))}")
        return found[-1]

    @property
    def graphs(self) -> dict[str, Function]:
        """The graph after capture, after autodiff, after all passes."""
        return {s.kept_as: s.value for s in self.stages if isinstance(s.value, Function)}

    @property
    def seconds(self) -> dict[str, float]:
        """How long each pass took."""
        return {s.name: s.seconds for s in self.stages}

    @property
    def final(self) -> Function:
        """The graph after all passes."""
        return list(self.graphs.values())[-1]


def compile_function(captured: Any, options: Options, *, until: str | None = None, capture_seconds: float = 0.0) -> Compiled:
    """Run the passes over a captured function (it has `.function`, `.signature` and `.hints`), up to the one named `until`."""
    value: Any = captured.function
    stages = [Stage("capture", "capture", value, capture_seconds)]
    verifying = os.environ.get("ADCOMPILE_VERIFY") == "1"
    graph, program = captured.function, None
    for each in PASSES:
        if each.gradient_only and not options.gradient:
            continue
        if verifying and isinstance(value, Function):
            verify(value, after=stages[-1].name)
        started = time.perf_counter()
        program = value if isinstance(value, Program) else program
        with nullcontext() if each.ensures is Level.KERNEL else uncollected():
            value = each.run(value, Context(captured.signature, options, graph, captured.hints, program))
        stages.append(Stage(each.name, each.stage, value, time.perf_counter() - started))
        graph = value if isinstance(value, Function) else graph
        if each.name == until:
            break
    return Compiled(captured.signature, options, tuple(stages))


@contextmanager
def uncollected() -> Iterator[None]:
    """Passes make very many objects and no cycles to speak of: looking for those would take half of their time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def specialise(captured: Any, options: Options, capture_seconds: float = 0.0) -> Specialisation:
    """A captured function ready to be called. What another process has found out about it is taken from disk; the passes then
    run only if somebody looks at them. Where machine code is to be made `lazy`, the tape machine stands in for it."""
    lazy, options = options.lazy, replace(options, lazy=False)
    context = Context(captured.signature, options, captured.function, captured.hints)

    def remake() -> Compiled:
        return compile_function(captured, options, until="emit", capture_seconds=capture_seconds)

    key = recipe_key(captured, options)
    recipe = recall(key) if key else None
    if isinstance(recipe, Recipe):
        module = build(recipe, context, lambda: remake().stage("loops"))
        return Specialisation(captured.signature, recipe.head, module, options.gradient, remake)
    if lazy and not options.debug:
        graph = compile_function(captured, options, until="dce").final
        tape = run_tape(graph, context)
        if tape is not None:
            return Specialisation(captured.signature, graph.head, tape, options.gradient, remake,
                                  finish=lambda: specialise(captured, options, capture_seconds))
    compiled = compile_function(captured, options, capture_seconds=capture_seconds)
    module = compiled.stage("kernel")
    if key:
        remember(key, Recipe(compiled.stage("source"), compiled.final.head, module.sharing.work if module.sharing else None))
    return Specialisation(captured.signature, compiled.final.head, module, options.gradient, lambda: compiled)


def recipe_key(captured: Any, options: Options) -> Key | None:
    """What a recipe depends on; None where it is not kept: without the cache, and where passes are to be watched."""
    if not options.cache or options.debug or os.environ.get("ADCOMPILE_VERIFY") == "1":
        return None
    lines = dict.fromkeys(f"{o.location}: {o.location.source}" for o in walk(captured.function.body) if o.location)
    threads = thread_count(options.parallel) > 1
    return Key.of_recipe(text_of(captured.function), "\n".join(lines), repr(options), repr(dict(captured.hints)),
                         repr(captured.signature.wrt), repr(threads))
