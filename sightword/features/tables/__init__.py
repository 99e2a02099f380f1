"""The table of features in features.h5, its origin, and its pairing with captions."""
