"""The sample corpus: scenes drawn, captioned and compared as a description of a small world says."""
