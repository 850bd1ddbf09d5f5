"""The version, for the package and for the header of generated modules."""

__version__ = "0.1.0"
