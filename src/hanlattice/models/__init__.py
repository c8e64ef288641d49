"""Whole models: embeddings, encoder and CRF put together, built from a configuration, saved and loaded."""
