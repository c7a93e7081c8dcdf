"""What notebooks show of a context: its messages, graph and differences."""
