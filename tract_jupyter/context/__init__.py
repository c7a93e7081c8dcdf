"""Committing, compiling and finding one's way in the history."""
