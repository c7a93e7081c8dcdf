"""How fast it is: `python -m benchmarks` prints one table, `python -m benchmarks NAME` one group of it."""
