"""Where bytes are: files, parts of files, members of tars, objects of a bucket; one way to read all of them."""
