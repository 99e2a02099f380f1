"""Reading and writing bytes: files, tables, HDF5, downloads."""
