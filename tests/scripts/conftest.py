"""Tools of the user's own, as for the toolkit."""

from tests.toolkit.conftest import add, search

__all__ = ["add", "search"]
