"""Source text -> machine code -> the call: numba compilation, disk cache, dispatch, guards, use inside `@njit` code."""
