"""HTTP/2 with prior knowledge: frames to requests, replies to frames."""
