"""The stages of ``hypernyms/dvc.yaml``."""
