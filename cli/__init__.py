"""The command line: slackwater."""
