"""Import and export: conversations of other programs, and notebooks.

Readers (`chat`, `notebook`) give *entries* (`entries`): dicts of keyword arguments for `Tract.commit`, in
order. Nothing here opens a store, and nothing that is read is executed. Knows only `models`.
"""
