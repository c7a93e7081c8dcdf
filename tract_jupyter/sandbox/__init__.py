"""The sandbox: a Python interpreter in a process of its own, for scripts and for actions that declare it."""
