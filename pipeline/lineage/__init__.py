"""The history of every number: the parameters, code, data, weights and machine that made it.

The package reads ``dvc.lock`` and git as data, and needs neither DVC nor the data themselves.
"""
