"""Value types: what is committed, compiled, declared and decided."""
