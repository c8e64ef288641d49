"""Training: one visible loop, the step and the resumable state that it shares with others, corpora,
card, packing.
"""
