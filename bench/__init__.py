"""`make bench`: what a step, a wait and a byte cost here and at the peers, side by side on the same Postgres.

Not packed: a folder of its own beside the product, which knows nothing of it. `docs/performance.md` tells how each number
comes about.
"""
