"""The services, over stores in memory that a test makes fail."""
