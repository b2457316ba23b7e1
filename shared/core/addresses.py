"""Which addresses we connect to on a caller's word: those of the internet, and none inside a network."""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Network = IPv4Network | IPv6Network

_WRAPPED = (IPv6Network("64:ff9b::/96"), IPv6Network("::/96"))
"""IPv6 networks whose last 32 bits are an IPv4 address, besides those that Python knows."""


def is_public(text: str, allowed: Sequence[Network] = ()) -> bool:
    """Whether an address is one of the internet's, or in a network that is allowed all the same (in tests, loopback). ValueError when it is none."""
    told = ip_address(text.partition("%")[0])
    address = _unwrapped(told)
    if any(told in network or address in network for network in allowed):
        return True
    return address.is_global and not address.is_multicast


def _unwrapped(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Give the IPv4 address that packets go to, where one is in IPv6's clothes."""
    if isinstance(address, IPv4Address):
        return address
    if any(address in network for network in _WRAPPED):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address
