"""The trained encoder: load and encode, its folder, ONNX, the sentence-transformers module, encoders by name."""
