"""Inference on a CPU: the arithmetic of every model in numpy and C, without torch."""
