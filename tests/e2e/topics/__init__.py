"""Topics, through sockets: what is sent to subscribers, and what becomes of their answers."""
