"""Sums of waits: when the last retry comes, who outlives which outage, when jobs that never succeed are dead.

`outlive` is what others ask; `last` finds the law that fits a policy:

* independent waits: `independent`, and with a deadline `deadlines`. `splits` parts a wait into single values and windows;
  `mixed_sum` adds them, single values on a lattice (`lattices`), the rest on a grid (`grid`); both together are `lumps`.
* ``decorrelated``: `decorrelated` walks jobs side by side, with `even_numbers`; `decorrelated_moments` knows mean and
  deviation better.
* one number for life, dither, ``slices``: `walks`.

`moments` has mean, deviation and ends of any number of waits.
"""
