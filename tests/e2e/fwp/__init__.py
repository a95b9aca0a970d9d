"""The Faktory Work Protocol, through sockets, against a real server process."""
