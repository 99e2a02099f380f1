"""Runs, traces and shows the DVC project. Nothing here can change an output of a stage."""
