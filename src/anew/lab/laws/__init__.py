"""What can be reckoned of a policy without drawing anything: the law of one wait, of the last retry, who outlives what.

`wait` gives the law of one wait, built of `pieces` (windows, dice, clamps), `slides` (``even``) and `chains` (the jitters that
remember); `shapes` holds what every law can tell. `spans` gives the bounds of every retry. `lasts` adds waits up to the
last retry, by `sums` where they owe each other nothing, by `chained` and `walks` where they do; `totals` knows the mean
and the ends of any number of them. `outlive` asks `lasts`.
"""
