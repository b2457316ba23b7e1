"""The ports on real stores: the only place that imports boto3."""
