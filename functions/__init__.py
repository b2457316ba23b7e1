"""The Lambda entry points: the HTTP API and one handler a state of the lifecycle."""
