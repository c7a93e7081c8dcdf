"""Import and export: conversations of other programs, and notebooks.

Readers give *entries*: dicts of keyword arguments for `Tract.commit`, in order. Nothing here opens a store, and
nothing that is read is executed.
"""
