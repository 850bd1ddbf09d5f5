"""Measures adcompile against plain NumPy and hand-written numba: `python -m bench`."""
