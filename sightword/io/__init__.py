"""Reading and writing bytes: files, tables, saved folders, HDF5, downloads."""
