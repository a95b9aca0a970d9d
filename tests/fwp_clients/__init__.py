"""Clients of Faktory that others wrote, unchanged, against a server."""
