"""Checks whether this machine and this project are fit for a run, each with advice."""
