"""The contracts: each file is one frozen value."""
