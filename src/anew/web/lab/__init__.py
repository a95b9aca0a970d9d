"""The lab's page: a query string in, HTML out."""
