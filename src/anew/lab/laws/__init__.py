"""The law of one wait: what `next_wait` would give if it were asked for ever, reckoned without drawing anything.

`wait` gives it, built of `pieces` (windows, dice, clamps), `slides` (``even``) and `remembering` (the jitters that hang on
the wait before); `shapes` and `tabulated` hold what every law can tell, `spans` the bounds of every retry. What waits come
to together is drawn: `anew.lab.last_retry`.
"""
