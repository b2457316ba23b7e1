"""What a batch makes of a scan: the errors that depend on the batch, in line order."""

from dataclasses import replace
from typing import Any

import pytest

from shared.core.contract import Contract
from shared.core.contracts import CONTRACTS
from shared.core.facts import Fact
from shared.core.judge import Judge
from shared.core.models import AdapterLimit, Model, Registry
from shared.core.request_line import MESSAGE_BYTES, LineError
from shared.core.scan import Entry
from tests.core.lines import CHAT, COMPLETIONS, EMBEDDINGS

OPENAI, BOARDWALK, GRIDLINE, TOKEN360 = (CONTRACTS[name] for name in ("openai", "boardwalk", "gridline", "token360"))


def model(name: str, **fields: Any) -> Model:
    """Give a model that answers chats and embeddings."""
    rest: dict[str, Any] = {"endpoints": (CHAT, EMBEDDINGS)} | fields
    return Model(id=name, revision=f"{name}@1", source="s", engine="echo", context=4096, max_output=50, **rest)


REGISTRY = Registry(
    (
        model("echo"),
        model("other"),
        model("words", endpoints=(EMBEDDINGS,)),
        model("gone", active=False),
        model("mine", org="acme"),
        model("theirs", org="globex"),
        *[model(f"ft:echo:{index}", base="echo", rank=8, adapter_bytes=100) for index in range(10)],
        model("ft:echo:large", base="echo", rank=64, adapter_bytes=1_000),
        model("ft:echo:theirs", base="echo", org="globex"),
        model("ft:gone:1", base="gone"),
    )
)


def entry(line: int, name: str = "echo", url: str = CHAT, **fields: Any) -> Entry:
    """Give a line that can run."""
    rest: dict[str, Any] = {"custom_id": f"r{line}", "cap": 10, "n": 1, "facts": 0, "logprobs": 0} | fields
    return Entry(line=line, offset=0, length=100, url=url, model=name, prefixes=(0, 0), **rest)


def judged(
    *index: Entry | LineError, contract: Contract = OPENAI, endpoint: str | None = CHAT, registry: Registry = REGISTRY
) -> list[tuple[int, str, str | None]]:
    """Judge an index for the organization acme; give line, code and param of each error."""
    errors = list(Judge(endpoint, contract, registry, "acme").errors(index))
    assert all(len(error.message.encode()) <= MESSAGE_BYTES for error in errors)
    return [(error.line, error.code, error.param) for error in errors]


def test_a_file_of_good_lines_has_no_errors() -> None:
    """The judge says how many there are, of which model, and how much the output has at least."""
    judge = Judge(CHAT, OPENAI, REGISTRY, "acme")

    assert [] == list(judge.errors([entry(1), entry(3, n=2)]))
    assert (2, REGISTRY["echo"]) == (judge.total, judge.model)
    assert judge.least_output > 0


def test_errors_come_in_line_order_and_each_line_has_one() -> None:
    """Those of the scan and those of the batch are one list, also where a line breaks several rules."""
    found = judged(
        LineError(1, "invalid_json_line", "x"),
        entry(2, url=COMPLETIONS, name="nobody"),
        entry(3),
        entry(4, name="other"),
        LineError(7, "duplicate_custom_id", "x", "custom_id", "r3"),
        entry(9, name="nobody"),
    )

    expected = [
        (1, "invalid_json_line", None),
        (2, "url_mismatch", "url"),
        (4, "mismatched_model", "body.model"),
        (7, "duplicate_custom_id", "custom_id"),
        (9, "mismatched_model", "body.model"),
    ]
    assert expected == found


def test_an_index_in_pieces_is_judged_as_a_whole() -> None:
    """Model and total are carried from one piece to the next."""
    judge = Judge(CHAT, replace(OPENAI, file_requests=2), REGISTRY, "acme")

    assert [] == list(judge.errors([entry(1)]))
    assert ["mismatched_model"] == [error.code for error in judge.errors([entry(2, name="other")])]
    assert ["too_many_requests_in_file"] == [error.code for error in judge.errors([entry(3)])]


def test_a_bad_body_at_another_endpoint_is_a_wrong_url() -> None:
    """By the rules of which endpoint the body is bad, the batch does not care."""
    error = LineError(1, "invalid_request", "unknown field `body.messages`", "body.messages", "a", EMBEDDINGS)

    assert [(1, "url_mismatch", "url")] == judged(error)
    assert [(1, "invalid_request", "body.messages")] == judged(error, endpoint=EMBEDDINGS)


@pytest.mark.parametrize("name", ["nobody", "", "words", "gone", "theirs", "ft:echo:theirs", "ft:gone:1", "ft:none"])
def test_a_model_that_is_not_served_here_is_not_found(name: str) -> None:
    """Unknown, at another endpoint, no longer active, or somebody else's: the caller cannot tell which."""
    assert [(1, "model_not_found", "body.model"), (2, "model_not_found", "body.model")] == judged(
        entry(1, name), entry(2, name)
    )


def test_an_organization_may_name_its_own_model() -> None:
    """The others' judge would not find it."""
    assert [] == judged(entry(1, "mine"))


def test_the_first_line_that_can_be_judged_sets_the_model() -> None:
    """A line of another endpoint does not count."""
    assert [(1, "url_mismatch", "url")] == judged(entry(1, "other", COMPLETIONS), entry(2), entry(3))


def test_a_file_with_too_many_lines_is_told_once() -> None:
    """At the first line too many, not a million times."""
    contract = replace(OPENAI, file_requests=2)

    assert [(4, "too_many_requests_in_file", None)] == judged(
        *(entry(line) for line in (1, 3, 4, 5, 6)), contract=contract
    )


def test_a_private_model_may_have_a_smaller_limit() -> None:
    """Boardwalk takes 95 lines for those, and a thousand for the catalog's."""
    ninety_six = range(1, 97)

    assert [(96, "too_many_requests_in_file", None)] == judged(
        *(entry(line, "mine") for line in ninety_six), contract=BOARDWALK
    )
    assert [] == judged(*(entry(line) for line in ninety_six), contract=BOARDWALK)


def test_without_an_endpoint_the_first_lines_counts_if_the_contract_has_it() -> None:
    """An upload is judged before anybody said which endpoint the batch will name."""
    assert [] == judged(entry(1), entry(2), endpoint=None)
    assert [(1, "url_mismatch", "url"), (3, "url_mismatch", "url")] == judged(
        entry(1, url=COMPLETIONS), entry(2), entry(3, url=EMBEDDINGS), endpoint=None, contract=GRIDLINE
    )


@pytest.mark.parametrize(
    ("contract", "fields", "error"),
    [
        (BOARDWALK, {"custom_id": "é" * 64}, None),
        (BOARDWALK, {"custom_id": "é" * 65}, ("invalid_request", "custom_id")),
        (OPENAI, {"custom_id": "é" * 512}, None),
        (BOARDWALK, {"cap": 0}, ("missing_required_parameter", "body.max_tokens")),
        (TOKEN360, {"cap": 0}, None),
        (GRIDLINE, {"cap": 0}, None),
        (GRIDLINE, {"cap": 1024}, None),
        (GRIDLINE, {"cap": 1025}, ("invalid_request", "body.max_tokens")),
        (OPENAI, {"cap": 4096}, None),
        (GRIDLINE, {"n": 8}, None),
        (GRIDLINE, {"n": 9}, ("invalid_request", "body.n")),
        (GRIDLINE, {"logprobs": 5}, None),
        (GRIDLINE, {"logprobs": 6}, ("invalid_request", "body.top_logprobs")),
        (GRIDLINE, {"facts": int(Fact.STORE)}, ("invalid_request", "body.store")),
        (GRIDLINE, {"facts": int(Fact.IMAGE)}, ("invalid_request", "body.messages")),
        (OPENAI, {"facts": int(~Fact(0)), "n": 100, "logprobs": 20}, None),
    ],
)
def test_each_contract_has_its_own_rules_for_a_line(
    contract: Contract, fields: dict[str, Any], error: tuple[str, str] | None
) -> None:
    """What one takes another refuses, and the error names the field."""
    assert ([(1, *error)] if error else []) == judged(entry(1, **fields), contract=contract)


def test_an_embedding_has_no_cap() -> None:
    """Where answers must be capped, that is said of answers that are written."""
    line = entry(1, "words", EMBEDDINGS, cap=0)

    assert [] == judged(line, contract=replace(BOARDWALK, endpoints=(EMBEDDINGS,)), endpoint=EMBEDDINGS)


def test_where_one_model_is_one_model_a_base_and_its_adapter_are_two() -> None:
    """Contracts that mix no adapters take each alone."""
    assert [] == judged(entry(1, "ft:echo:1"), entry(2, "ft:echo:1"), contract=TOKEN360)
    assert [(2, "mismatched_model", "body.model")] == judged(entry(1), entry(2, "ft:echo:1"), contract=TOKEN360)


def test_a_base_and_its_adapters_may_be_one_batch() -> None:
    """Up to as many as the contract says; one more is told, where it first stands."""
    eight = [entry(line, f"ft:echo:{line}") for line in range(8)]

    assert [] == judged(entry(20), *eight, *eight, contract=GRIDLINE)
    assert [(9, "model_not_found", "body.model")] == judged(*eight, entry(9, "ft:echo:9"), contract=GRIDLINE)
    assert [] == judged(*eight, entry(9, "ft:echo:9"), contract=OPENAI)
    assert [(9, "mismatched_model", "body.model")] == judged(*eight, entry(9, "other"), contract=GRIDLINE)


def test_a_base_serves_no_more_adapters_than_it_was_proved_to() -> None:
    """Of one of its pairs of rank and number must hold both, and their bytes must fit."""
    limits = (AdapterLimit(rank=16, count=3), AdapterLimit(rank=64, count=1))
    adapters = [REGISTRY["ft:echo:1"], REGISTRY["ft:echo:2"], REGISTRY["ft:echo:large"]]

    def told(*names: str, **base: Any) -> list[str]:
        registry = Registry((model("echo", **base), *adapters))
        lines = [entry(line, name) for line, name in enumerate(names, start=1)]
        return [code for _, code, _ in judged(*lines, registry=registry)]

    assert [] == told("ft:echo:1", "ft:echo:2", adapter_limits=limits)
    assert [] == told("ft:echo:large", adapter_limits=limits)
    assert ["model_not_found"] == told("ft:echo:1", "ft:echo:large", adapter_limits=limits)
    assert [] == told("ft:echo:1", "ft:echo:2", adapters_bytes=200)
    assert ["model_not_found"] == told("ft:echo:1", "ft:echo:2", adapters_bytes=199)


def test_a_message_never_grows_with_the_name_that_a_caller_chose() -> None:
    """Even the longest name of a model leaves the message within its bytes."""
    assert [(1, "model_not_found", "body.model")] == judged(entry(1, "é" * 256))


@pytest.mark.parametrize(("cap", "expected"), [(4096, []), (4097, [(1, "context_length_exceeded", "body.max_tokens")])])
def test_an_answer_longer_than_the_context_is_refused_before_it_is_run(cap: int, expected: list[object]) -> None:
    """There is no prompt that leaves room for it."""
    assert expected == judged(entry(1, cap=cap))
