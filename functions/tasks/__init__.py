"""The task states of the lifecycle, one Lambda a state."""
