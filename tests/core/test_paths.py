"""The keys of the bucket."""

from collections.abc import Callable

import pytest

from shared.core import paths
from shared.core.ids import BatchRef

KEYS: dict[str, Callable[[BatchRef], str]] = {
    "file": lambda ref: paths.file(ref.org, "file-1"),
    "scan": lambda ref: paths.scan(ref.org, "file-1"),
    "legs": lambda ref: paths.legs(ref.org, "file-1"),
    "leg": lambda ref: paths.leg(ref.org, "file-1", 3),
    "pieces": lambda ref: paths.pieces(ref.org, "file-1"),
    "upload": lambda ref: paths.upload(ref.org, "upload_1"),
    "upload_part": lambda ref: paths.upload_part(ref.org, "upload_1", "part_1"),
    "batch": paths.batch,
    "errors": paths.errors,
    "plan": lambda ref: paths.plan(ref, 3),
    "plans": paths.plans,
    "chunks": paths.chunks,
    "chunk": lambda ref: paths.chunk(ref, 3, 2, 1, "n"),
    "page": lambda ref: paths.page(ref, "n"),
}


def test_every_key_is_looked_at_here() -> None:
    """A new key builder comes with its line in this file."""
    builders = {name for name, value in vars(paths).items() if getattr(value, "__module__", "") == paths.__name__}

    assert builders == {*KEYS, "model_file"}


def test_the_files_of_models_are_no_organization_s() -> None:
    """They have a place of their own, which a registry names."""
    assert "models/acme/tides/1/weights" == paths.model_file(f"{paths.MODELS}acme/tides/1", "weights")
    assert "models/acme/tides/1/weights" == paths.model_file(f"{paths.MODELS}acme/tides/1/", "weights")


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_every_key_begins_with_the_organization(key: Callable[[BatchRef], str]) -> None:
    """Two organizations never meet in a key, nor in a prefix of one."""
    acme, acme2 = (key(BatchRef(org, "openai", "batch_1")) for org in ("acme", "acme2"))

    assert acme.startswith("orgs/acme/")
    assert acme2.startswith("orgs/acme2/")
    assert not acme2.startswith(acme)


def test_two_kinds_of_object_never_share_a_key() -> None:
    """Each builder has a place of its own."""
    ref = BatchRef("acme", "openai", "batch_1")

    assert len(KEYS) == len({key(ref) for key in KEYS.values()})


def test_what_a_batch_keeps_is_removed_with_its_prefix_and_nothing_else() -> None:
    """The prefix ends with a slash, so that it is no prefix of a longer id's."""
    one, ten = BatchRef("acme", "openai", "batch_1"), BatchRef("acme", "openai", "batch_10")
    kept = [paths.errors(one), paths.plan(one, 0), paths.chunk(one, 0, 0, 0, "n"), paths.page(one, "n")]

    assert all(key.startswith(paths.batch(one)) for key in kept)
    assert not paths.batch(ten).startswith(paths.batch(one))


def test_plans_chunks_and_legs_are_listed_in_order() -> None:
    """Numbers in keys have leading zeros: the order of keys is the order of numbers."""
    ref = BatchRef("acme", "openai", "batch_1")
    plans = [paths.plan(ref, shard) for shard in (0, 9, 10, 999_999)]
    chunks = [
        paths.chunk(ref, *at, "n") for at in ((0, 0, 9), (0, 0, 10), (0, 2, 0), (0, 10, 0), (9, 0, 0), (10, 0, 0))
    ]
    legs = [paths.leg("acme", "file-1", number) for number in (0, 9, 10, 100)]

    assert [*plans] == sorted(plans)
    assert [*chunks] == sorted(chunks)
    assert [*legs] == sorted(legs)
