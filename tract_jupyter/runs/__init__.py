"""Runs: operations around the main LLM call, executed in parallel, committed in one order."""
