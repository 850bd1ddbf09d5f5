"""One file for each workload: its inputs, the function as a user of adcompile writes it, and what other tools' users write."""
