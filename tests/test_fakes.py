"""The hostile world does what it says."""

from threading import Event, Thread

import pytest

from shared.core.errors import NotFound, Unavailable
from tests.fakes import Hostile, delay, duplicate, fail, lose_answer, ok, then


class Bucket:
    """One object, which counts what happens to it."""

    def __init__(self) -> None:
        self.puts: list[str] = []

    def put(self, key: str) -> int:
        """Write and give the number of writes."""
        self.puts.append(key)
        return len(self.puts)

    def get(self, key: str) -> str:
        """Give what was written."""
        if key not in self.puts:
            raise NotFound(key)
        return key


def test_a_call_that_fails_has_no_effect() -> None:
    """`fail` raises and does not call."""
    bucket = Bucket()
    hostile = Hostile(bucket, {"put": [fail]})
    with pytest.raises(Unavailable):
        hostile.port.put("a")
    assert bucket.puts == []


def test_a_lost_answer_has_its_effect() -> None:
    """`lose_answer` calls, then raises."""
    bucket = Bucket()
    hostile = Hostile(bucket, {"put": [lose_answer]})
    with pytest.raises(Unavailable):
        hostile.port.put("a")
    assert bucket.puts == ["a"]


def test_a_lost_answer_may_be_a_lost_error() -> None:
    """What was lost is not known: neither is that it was an error."""
    hostile = Hostile(Bucket(), {"get": [lose_answer]})
    with pytest.raises(Unavailable):
        hostile.port.get("a")


def test_a_duplicated_call_arrives_twice_and_gives_the_second_answer() -> None:
    """`duplicate` calls twice."""
    bucket = Bucket()
    hostile = Hostile(bucket, {"put": [duplicate]})
    assert hostile.port.put("a") == 2
    assert bucket.puts == ["a", "a"]


def test_a_duplicated_call_gives_the_second_error() -> None:
    """Errors of both calls are errors of the port."""
    hostile = Hostile(Bucket(), {"get": [duplicate]})
    with pytest.raises(NotFound):
        hostile.port.get("a")


def test_a_delayed_call_arrives_when_the_event_is_set() -> None:
    """`delay` holds a call back while others go through."""
    bucket, event = Bucket(), Event()
    hostile = Hostile(bucket, {"put": [delay(event)]})
    zombie = Thread(target=hostile.port.put, args=["late"])
    zombie.start()
    while not hostile.calls:
        event.wait(0.001)
    hostile.port.put("early")
    event.set()
    zombie.join()
    assert bucket.puts == ["early", "late"]


def test_a_race_is_run_between_effect_and_answer() -> None:
    """`then` calls back after the effect, and the answer is the call's own."""
    bucket = Bucket()
    hostile = Hostile(bucket, {"put": [then(lambda: bucket.put("theirs"))]})
    assert hostile.port.put("ours") == 1
    assert bucket.puts == ["ours", "theirs"]


def test_faults_are_met_in_order_and_calls_after_them_go_through() -> None:
    """The script is a list, and `ok` is a place in it."""
    hostile = Hostile(Bucket(), {"put": [ok, fail, ok]})
    assert hostile.port.put("a") == 1
    with pytest.raises(Unavailable):
        hostile.port.put("b")
    assert hostile.left == {"put": 1}
    assert (hostile.port.put("c"), hostile.port.put("d")) == (2, 3)
    assert hostile.left == {}
    assert hostile.calls == ["put", "put", "put", "put"]


def test_a_script_for_a_method_that_is_not_there_is_refused() -> None:
    """A fault that nothing can meet would be a test that proves nothing."""
    with pytest.raises(AttributeError):
        Hostile(Bucket(), {"comit": [fail]})
