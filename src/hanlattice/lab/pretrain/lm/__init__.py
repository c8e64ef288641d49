"""A character language model from raw text: trained one direction at a time, scored, and asked to
write.
"""
