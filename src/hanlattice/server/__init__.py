"""The server: models behind HTTP, in batches, and the page that shows the lattice. docs/serve.md
describes it.
"""
