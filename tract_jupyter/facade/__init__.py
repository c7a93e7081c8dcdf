"""The methods of `Tract`, by subject; each delegates."""
