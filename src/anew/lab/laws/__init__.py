"""The law of one wait: what `next_wait` would give if it were asked for ever, calculated without drawing anything.

`wait` gives it, built of what `shapes` has: windows, dice and clamps, the slides of ``even``, and values that were drawn. `spans`
has the bounds of every retry. What many waits come to: `anew.lab.last_retry`.
"""
