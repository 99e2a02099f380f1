"""The table of features in features.h5, and its pairing with captions."""
