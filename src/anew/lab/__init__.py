"""See a retry policy before you trust it: explain, simulate, measure, compare, fit, lint, draw, replay.

Everything here is about policies and never about a running server; chance comes from a seed, so that the same
question gets the same answer.
"""
