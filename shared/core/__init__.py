"""The domain in plain Python: no clock, no I/O, no logging."""
