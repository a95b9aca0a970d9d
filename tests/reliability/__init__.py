"""Rigs that try to make a real server break its promises: crashes, overload, hostile clients."""
