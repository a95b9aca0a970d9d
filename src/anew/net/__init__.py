"""Sockets and protocols: accepts connections, turns bytes into requests and replies into bytes. Knows no job."""
