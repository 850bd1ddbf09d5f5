"""The graph IR: types, grammar, builder, text form, verifier, reference interpreter. Imports nothing but errors."""
