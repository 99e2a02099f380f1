"""An encoder for other programs: the module for sentence-transformers, features as a table, results of MTEB."""
