"""The HTTP API, from outside: through the official SDK and plain HTTP, over stores in memory."""
