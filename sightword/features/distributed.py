    The times of the clock are the means of the workers. Ray is asked for all workers at once, for an autoscaler to see
    them; a worker takes pieces once it has started. Ray starts a lost worker again, with its piece.

