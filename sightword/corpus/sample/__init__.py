"""Generates the sample corpus from the description of a small world: scenes, pictures, captions and sentence pairs."""
