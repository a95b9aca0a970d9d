"""The pages for browsers: the dashboard of a server, the lab, and the files that both load."""
