"""The parameters of a project: their file, the published recipes, and the page of reference."""
