"""The shop's payment service: a small HTTP server of its own that fails, stalls and knows idempotency keys.

It stands for whatever your workflows call: it runs in another process, keeps its own books, and
shares no code with `runs`. To start it by hand:

    python -m examples.refund.payments --port 8031 --data payments.sqlite3
"""
