"""Published data sets and weights: their addresses (``sources.yaml``), download and check."""
