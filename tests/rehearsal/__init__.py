"""Tests of the package `rehearsal`."""
