"""Other programs' conversations and notebooks, in and out.

Readers (`chat`, `notebook`) give *entries* (`entries`): dicts of keyword arguments for `Tract.commit`, in
order. Nothing here opens a store, and nothing that is read is executed. Knows only `models`.
"""
