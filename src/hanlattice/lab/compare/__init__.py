"""Several configurations, each trained with several seeds, in one table: see `run.compare`."""
