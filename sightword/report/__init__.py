"""The report: tables, curves and a gallery of one run on one page that needs nothing else."""
