"""Features of pictures from image networks: the mean over crops, in one checked file."""
