"""The law of one wait: what `next_wait` would give if it were asked for ever, calculated without drawing anything.

`wait` gives it, built of `pieces` (windows, dice, clamps) and `slides` (``even``); `drawn` holds the law of values that were
drawn. `shapes` is what every law can tell, `spans` the bounds of every retry. What many waits come to: `anew.lab.last_retry`.
"""
