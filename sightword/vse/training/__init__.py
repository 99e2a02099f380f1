"""The training run of the caption and image encoders."""
