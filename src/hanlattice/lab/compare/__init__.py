"""Several configurations, each trained with several seeds, in one table. `run.compare` is the
entry.
"""
