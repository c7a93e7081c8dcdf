"""The sandbox: a Python interpreter in a process of its own, for scripts and for actions that declare it.

`pool` starts and ends the processes, `subset` finds what that Python lacks before anything runs. Knows only
`models`; what a program may reach is given by whoever runs it (`scripts`, `operations`).
"""
