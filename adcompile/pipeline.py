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

import itertools
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from .differentiate.reverse import value_and_grad
from .emit.emit import emit
from .emit.threads import emit_threads
from .errors import UnsupportedOp, VerifyError
from .ir.core import Function
from .ir.loops import Interface, Program
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
from .optimize.unpack import unpack
from .runtime.compile import CompiledModule
from .runtime.debug import InterpretedModule
from .runtime.dispatch import Specialisation
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
    function, gradients = context.function, len(context.wrt)
    if context.options.debug:
        return InterpretedModule(function, source, gradients)
    params = tuple(p.type for p in function.params)
    buffers = tuple(function.params[i].type for i in context.wrt)
    sharing = run_share(context)
    module = CompiledModule(source, function.name, params, buffers, cache=context.options.cache, sharing=sharing)
    if sharing is None or not sharing.is_worth(context.hints):
        _ = module.called           # compiles; a call that threads share does not need it
    return module


def run_share(context: Context) -> Sharing | None:
    """How threads share big calls; None where they do not. Raises where the user wants it and it cannot be done."""
    options, program = context.options, context.program
    threads = thread_count(options.parallel)
    assert program is not None
    found = cut(program, {s: context.hints.get(s, TYPICAL) for s in context.function.sizes}) if threads > 1 else None
    if found is None:
        if options.parallel not in ("auto", False) and threads > 1:
            raise UnsupportedOp(f"parallel={options.parallel!r}: {context.function.name} has no loop whose turns are independent",
                                do='Leave parallel="auto": it then runs on one thread.')
        return None

    def make() -> ThreadedModule:
        source = emit_threads(found, fastmath=options.fastmath, header=f"generated by adcompile {__version__}")
        return ThreadedModule(source, context.function.name, cache=options.cache, threads=threads)

    return Sharing(found.work, make)


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

    def specialisation(self) -> Specialisation:
        """This, ready to be called."""
        graph = list(self.graphs.values())[-1]
        return Specialisation(self.signature, graph, self.stage("kernel"), self.options.gradient, self)


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
        value = each.run(value, Context(captured.signature, options, graph, captured.hints, program))
        stages.append(Stage(each.name, each.stage, value, time.perf_counter() - started))
        graph = value if isinstance(value, Function) else graph
        if each.name == until:
            break
    return Compiled(captured.signature, options, tuple(stages))

