-- The time by the clock that all share: of the transaction, if there is one.
SELECT now()
