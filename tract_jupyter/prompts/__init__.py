"""Every text that a model is told on the package's own behalf, and nothing else."""
