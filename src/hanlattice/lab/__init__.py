"""Tools for research: comparisons, benchmarks, mistakes, and pre-training from raw text."""
