"""The page of the grounded space."""
