"""Corpora: readers and writers of every format, and the known downloads."""
