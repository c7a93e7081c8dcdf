"""Panels: a request on display in a cell's output."""
