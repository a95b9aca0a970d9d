"""The Faktory Work Protocol: lines to commands, results to replies. No socket, engine, store or clock in these modules."""
