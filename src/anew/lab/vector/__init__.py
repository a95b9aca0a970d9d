"""The waits of many jobs at once, in NumPy arrays: what `anew.backoff` decides for one. Needs NumPy."""
