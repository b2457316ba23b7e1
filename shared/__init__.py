"""What every entry point shares: the core, the ports, the services and the adapters."""
