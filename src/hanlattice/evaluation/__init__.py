"""Scoring: found spans against gold ones."""
