"""Modules that own parameters and call ops. They take plain arguments and know nothing of
configuration.
"""
