"""The CDK application that deploys Slackwater."""
