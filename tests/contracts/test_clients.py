"""The AWS clients of an entry point."""

from typing import Any

import pytest

from shared.adapters.clients import Clients


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")


def test_clients_go_to_the_region() -> None:
    """Where nothing else is said."""
    clients = Clients(region="eu-west-1")
    assert "https://dynamodb.eu-west-1.amazonaws.com" == clients.dynamodb.meta.endpoint_url
    assert "eu-west-1" == clients.s3.meta.region_name


def test_clients_go_to_the_local_stack() -> None:
    """All of them; S3 finds its buckets by path there."""
    clients = Clients(region="eu-west-1", endpoint_url="http://127.0.0.1:9")
    for client in (clients.dynamodb, clients.s3, clients.stepfunctions, clients.batch):
        assert "http://127.0.0.1:9" == client.meta.endpoint_url
    url = clients.s3.generate_presigned_url("get_object", Params={"Bucket": "bucket", "Key": "key"})
    assert url.startswith("http://127.0.0.1:9/bucket/key")


@pytest.mark.parametrize("region", ["us-east-1", "eu-west-1"])
def test_urls_are_signed_for_the_region_and_for_objects_under_a_key(region: str) -> None:
    """Signature version 4, and the region's own host."""
    url = Clients(region=region).s3.generate_presigned_url("get_object", Params={"Bucket": "bucket", "Key": "key"})
    host = "bucket.s3.amazonaws.com" if region == "us-east-1" else f"bucket.s3.{region}.amazonaws.com"
    assert url.startswith(f"https://{host}/key?")
    assert "X-Amz-Signature=" in url


def test_a_client_is_made_once_and_does_not_wait_for_ever() -> None:
    """With as many connections as it was asked for."""
    clients = Clients(region="eu-west-1", connections=32)
    assert clients.dynamodb is clients.dynamodb
    config: Any = clients.dynamodb.meta.config
    assert (2.0, 5.0, 32) == (config.connect_timeout, config.read_timeout, config.max_pool_connections)
    assert {"mode": "standard", "total_max_attempts": 3} == config.retries
