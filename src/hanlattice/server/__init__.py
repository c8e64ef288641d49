"""Serve models over HTTP in batches, with a page that shows the lattice (docs/serve.md)."""
