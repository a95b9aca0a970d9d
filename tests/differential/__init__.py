"""The same lines to two servers, and what they answer."""
