"""The parameters of a project: their file, the published recipes, the writing of both, and the page of reference."""
