"""Retrieval: find the picture of a caption, and a caption of a picture; recall, ranks, intervals."""
