"""Measures adcompile against other ways to get a gradient: `python -m bench`. README.md in this folder says how."""
