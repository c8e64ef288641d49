"""Corpora: readers and writers of character columns, segmented lines and JSONL spans, and the known
downloads.
"""
