"""Corpora of any size: files in, a file out for each shard of them, each exactly once
(docs/scale.md).
"""
