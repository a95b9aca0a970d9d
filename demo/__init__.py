"""The demo: 200 invoices for a receiver that is down, retries, a kill -9 in the middle, and the sums at the end.

`__main__` tells the story; `stage` starts and ends the processes; `receiver` is the service that is being called; `worker`
takes jobs and calls it; `report` draws the timeline and checks the sums. Run it with ``python -m demo``.
"""
