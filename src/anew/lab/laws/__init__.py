"""What can be reckoned of a policy without drawing anything: the law of one wait, of the last retry, who outlives what.

`wait` gives the law of one wait, built of `pieces` (windows, dice, clamps), `slides` (``even``) and `chains` (the jitters that
remember); `shapes` holds what every law can tell. `spans` gives the bounds of every retry. `lasts` adds waits up to the
last retry: where waits owe each other nothing `independent` adds them, value by value (`splits`, `lattices`, which make `lumps`)
and on a grid (`sums`); where they do, `chained` and `walks`. `totals` knows the mean and the ends of any number of them.
`outlive` asks `lasts`.
"""
