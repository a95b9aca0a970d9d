"""HTTP/1.1 and HTTP/2 on one port, both ending in the seam."""
