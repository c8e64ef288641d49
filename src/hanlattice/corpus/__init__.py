"""Tag corpora of any size: files in, one file out for each shard, exactly once (docs/scale.md)."""
