"""JAX: the form takes `jax.numpy` and returns the function; it is jitted in float64, integers being static."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..workload import Form, Problem, Workload
from . import Contender

LABEL, PACKAGE = "JAX", "jax"


def build(form: Form, problem: Problem, workload: Workload) -> Contender:
    """`jit(value_and_grad(f))`, waited for."""
    import jax
    import jax.numpy as jnp
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)        # JAX_COMPILATION_CACHE_DIR is set
    f = form.function(jnp)
    static = [place for place, a in enumerate(problem.values) if isinstance(a, int)]
    compiled = jax.jit(jax.value_and_grad(f, argnums=problem.positions), static_argnums=static)
    plain = jax.jit(f, static_argnums=static)

    def arrays(result: Any) -> tuple[float, list[np.ndarray]]:
        return float(result[0]), [np.asarray(g) for g in result[1]]

    if workload.numpy_boundary:
        return Contender(lambda *args: arrays(compiled(*args)), problem.values, value=lambda *args: float(plain(*args)))
    args = [jnp.asarray(a) if isinstance(a, np.ndarray) else a for a in problem.values]
    return Contender(lambda *args: jax.block_until_ready(compiled(*args)), args, arrays,
                     lambda *args: plain(*args).block_until_ready())
