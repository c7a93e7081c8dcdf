"""Parameters, JSON Schema and Python types: one description in three forms."""
