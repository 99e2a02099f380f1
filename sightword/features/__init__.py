"""Features of pictures from image networks: the mean over crops, and perhaps each crop's, in one checked file."""
