"""The page of the entailment."""
