"""The encoder of sentence pairs."""
