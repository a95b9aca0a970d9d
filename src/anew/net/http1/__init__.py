"""HTTP/1.1 and 1.0: bytes to requests, replies to bytes."""
