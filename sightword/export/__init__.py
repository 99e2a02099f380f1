"""An encoder for other programs: the module for sentence-transformers, and results of MTEB."""
