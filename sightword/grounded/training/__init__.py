"""The grounded space (Bordes et al. 2019): a sentence encoder learns from text and captions of pictures."""
