"""The DynamoDB tables, a file an aggregate."""
