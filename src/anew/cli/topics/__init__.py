"""``anew topic``, ``sub``, ``publish``, ``delivery`` and ``replay``: topics of a server, and what became of them."""
