"""Views of every stage of a compiled function: as text, coloured for a terminal."""
