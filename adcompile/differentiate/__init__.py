"""Derivatives: a function in, a function that computes it and its derivative out."""
