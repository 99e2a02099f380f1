"""The grounded space (Bordes et al. 2019): captions of pictures train a sentence encoder beside its text."""
