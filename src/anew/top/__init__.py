"""What `anew top` shows on a terminal: a server's lists of jobs as they change."""
