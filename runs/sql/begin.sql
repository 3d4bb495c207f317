-- The beginning of a transaction, sent with its first statement.
BEGIN
