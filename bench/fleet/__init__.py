"""A simulation of the fleet: real services and adapters in memory, on a virtual clock."""
