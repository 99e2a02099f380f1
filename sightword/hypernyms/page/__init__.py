"""The page of the hypernyms."""
