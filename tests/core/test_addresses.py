"""Which addresses we connect to on a caller's word."""

from ipaddress import ip_network

import pytest

from shared.core.addresses import is_public


@pytest.mark.parametrize(
    "address", ["93.184.215.14", "2606:2800:21f:cb07::1", "::ffff:93.184.215.14", "64:ff9b::5db8:d70e"]
)
def test_the_internet_is_public(address: str) -> None:
    """Its addresses, also where an IPv4 address is written as one of IPv6."""
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.0.1", "100.64.0.1", "0.0.0.0", "255.255.255.255", "224.0.0.1", "169.254.169.254",
        "169.254.170.2", "::", "::1", "fe80::1", "fe80::1%eth0", "fd00:ec2::254", "ff02::1", "::ffff:127.0.0.1", "::127.0.0.1", "::a9fe:a9fe",
        "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1",
    ],
)  # fmt: skip
def test_nothing_inside_a_network_is(address: str) -> None:
    """Loopback, private and shared networks, links, metadata, multicast: in whatever clothes."""
    assert not is_public(address)


def test_a_test_may_allow_a_network() -> None:
    """And nothing beside it."""
    allowed = [ip_network("127.0.0.0/8"), ip_network("::1/128")]
    assert is_public("127.0.0.1", allowed)
    assert is_public("::1", allowed)
    assert not is_public("10.0.0.1", allowed)


@pytest.mark.parametrize("text", ["", "localhost", "127.1", "2130706433"])
def test_what_is_no_address_is_neither(text: str) -> None:
    """It is the caller's to look up."""
    with pytest.raises(ValueError, match="does not appear to be"):
        is_public(text)
