"""The pages for browsers: the lab, its files, and the process beside the server that computes for them."""
