"""The composition root: everything that runs is put together here, and only here are engines of the store named."""
