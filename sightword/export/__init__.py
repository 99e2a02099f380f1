"""An encoder for other programs: ONNX, and the module for sentence-transformers."""
