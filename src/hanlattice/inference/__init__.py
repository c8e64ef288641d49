"""Inference on a CPU in NumPy and C, without torch: lattice and character models."""
