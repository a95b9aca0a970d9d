"""A herd of jobs under a policy, an outage, a downstream that can bear so much: what comes of it.

`scenario` says what happens, `simulate` is the way in, `outcome` is what is told. Jobs that do not hinder each other go
through `fast` (NumPy), all at once; those that meet in a queue through `queueing`, one by one, with `rows` for the jobs. So do
those of which `exact` asks the engine's own decision. `record` keeps every call, and counts them at the end.
"""
