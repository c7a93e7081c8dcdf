"""One script for each store version."""
