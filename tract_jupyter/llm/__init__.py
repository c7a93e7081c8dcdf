"""Clients of language models, and what they give back."""
