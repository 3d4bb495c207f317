DECIMAL_SEPARATOR = "."  # people read numbers by `runs.tongue.number`, which has the comma
