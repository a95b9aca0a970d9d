"""The Faktory Work Protocol: `connection` and `service` join it to sockets and the engine; the other modules are pure forms."""
