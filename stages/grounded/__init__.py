"""The stages of ``grounded/dvc.yaml``."""
