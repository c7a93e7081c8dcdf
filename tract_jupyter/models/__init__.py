"""Value types: contents, commits, compiled contexts, configuration, parameters."""
