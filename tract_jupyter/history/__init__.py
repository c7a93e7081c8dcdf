"""Surgery on histories, and telling them apart."""
