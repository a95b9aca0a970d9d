"""A herd of jobs under a policy, an outage, a downstream that can bear so much: what comes of it.

`scenario` says what happens, `simulate` is the way in, `outcome` is what is told. Jobs that do not hinder each other go
through `fast` (NumPy) or `exact` (the engine's own decision, one by one); those that meet in a queue through
`queueing`, with `rows` for the jobs. `record` keeps every call, and counts them at the end.
"""
