"""The dashboard: what a server holds, as pages, and what people may do about it."""
