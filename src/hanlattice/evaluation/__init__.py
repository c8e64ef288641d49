"""Scoring: what was found against what is there."""
