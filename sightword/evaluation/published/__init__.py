"""Published scores of all papers, for comparison with a run."""
