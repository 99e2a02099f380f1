"""Makers of files that git has; no wheel has them."""
