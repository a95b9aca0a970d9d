"""What is remembered: the protocol of a store, what its engines share, and a folder for each of them."""
