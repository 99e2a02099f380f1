"""The libraries whose image networks make features, a module for each."""
