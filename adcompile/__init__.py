"""Fused value-and-gradient kernels for ordinary NumPy functions."""

__version__ = "0.1.0"
