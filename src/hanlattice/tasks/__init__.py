"""Run tasks in processes of this machine or of a Ray cluster: one loop, two kinds of processes."""
