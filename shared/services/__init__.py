"""What the system does, written against the ports."""
