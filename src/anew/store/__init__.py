"""What is remembered: one small protocol, one folder for each engine."""
