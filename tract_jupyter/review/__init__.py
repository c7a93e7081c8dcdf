"""Review: whatever needs judgement is shown to a person, and the answer binds to what will run."""
