"""The stages of ``entailment/dvc.yaml``."""
