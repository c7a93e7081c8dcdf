"""The pendings that come with the package."""
