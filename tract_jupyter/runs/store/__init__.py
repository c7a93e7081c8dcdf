"""What runs keep between them in the store of a tract: artifacts, counters, profiles, reports of commits."""
