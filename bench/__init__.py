"""Measures the real server from outside: its own process, a loader in another, every commit synced."""
