"""Pure functions on arrays and tensors, without parameters. Each fast one has a twin that reads
like its equations.
"""
