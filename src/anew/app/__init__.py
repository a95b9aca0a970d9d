"""The composition root: where the engines of the store are named and the parts put together."""
