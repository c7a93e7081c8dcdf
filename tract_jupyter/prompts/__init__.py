"""Every text that the package itself sends to a model, and nothing else."""
