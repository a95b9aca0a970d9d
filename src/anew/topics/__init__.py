"""Topics: what is published on one goes to every subscriber's webhook, and each delivery is a job of the engine."""
