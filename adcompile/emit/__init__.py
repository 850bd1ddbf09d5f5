"""Loops to readable Python source."""
