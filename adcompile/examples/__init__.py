"""Examples that are installed with their data. `python -m adcompile demo [NAME]` runs one; `demos.py` lists them."""
