"""Tools of other programs, and this store's tools for them, by the Model Context Protocol."""
