"""The trained encoder: load and encode, its folder, the sentence-transformers module, encoders by name."""
