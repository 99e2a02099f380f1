"""The page of the first pipeline."""
