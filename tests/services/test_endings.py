"""How the batches of each contract end: which files they have, what is in them, and how long they and the input stay."""

import json
from typing import Any

import msgspec
import pytest

from shared.adapters.memory import Memory
from shared.core import merge, paths, plan, result_line
from shared.core.contract import Contract
from shared.core.contracts import CONTRACTS
from shared.core.ids import Space
from shared.core.plan import PlanLine, ShardPlan
from shared.core.records import Batch, Chunk, Counts, Ending, File, Shard, Status, Usage
from shared.core.window import Timing, is_overdue
from shared.services.finalize import Finalizer
from tests.inline import Inline

START = 1_800_000_000
DAY = 86400
REVISION = "tide-7b@1"


class Ended:
    """A batch of six lines that has come to Finalize, with these answers and failures; the rest has no row.

    Args:
        contract: The contract, by name.
        answers: The lengths of the answers, by line.
        failures: How many lines after those failed.
        ending: How it ends.
        fields: Fields of the batch.

    """

    LINES = 6

    def __init__(
        self, contract: str, answers: list[int], failures: int = 0, ending: Ending = Ending.COMPLETED, **fields: Any
    ) -> None:
        self.memory = Memory()
        self.space = Space("acme", contract)
        self.batch = Batch(
            id="batch_1",
            org="acme",
            contract=contract,
            endpoint="/v1/chat/completions",
            input_file_id="file-1",
            completion_window="24h",
            created_at=START,
            expires_at=START + DAY,
            status=Status.CANCELLING if ending is Ending.CANCELLED else Status.FINALIZING,
            counts=Counts(total=self.LINES),
            revision=REVISION,
            shards=1,
            ending=ending,
            finalizing_at=START + 5,
            **fields,
        )
        self.memory.files.put(
            File(
                id="file-1",
                org="acme",
                contract=contract,
                bytes=1,
                filename="in.jsonl",
                purpose="batch",
                created_at=START,
                expires_at=START + 3 * DAY,
            )
        )
        self.memory.batches.create(self.batch, None)
        self._commit(answers, failures)

    def _commit(self, answers: list[int], failures: int) -> None:
        ref = self.batch.ref
        lines = [PlanLine(line, 0, 1, f"id-{line}") for line in range(self.LINES)]
        shard_plan = ShardPlan("batch_1", "acme", self.batch.contract, "key", self.batch.endpoint, lines)
        self.memory.blobs.put(paths.plan(ref, 0), plan.encode(shard_plan))
        self.memory.shards.put([Shard(**_shard(self.batch, self.LINES))])
        leased = self.memory.shards.lease(self.memory.shards.of(ref)[0], "worker", START + 60)
        output = b"".join(answer(line, size) for line, size in enumerate(answers))
        rest = range(len(answers), len(answers) + failures)
        error = b"".join(result_line.given_up("batch_1", line, f"id-{line}", "server_error", "no") for line in rest)
        if answers or failures:
            etag = self.memory.blobs.put("chunk", output + error)
            self.memory.chunks.commit(
                leased,
                Chunk(
                    shard=0,
                    epoch=leased.epoch,
                    seq=0,
                    key="chunk",
                    etag=etag,
                    output_bytes=len(output),
                    error_bytes=len(error),
                    completed=len(answers),
                    failed=failures,
                    usage=Usage(input_tokens=len(answers), output_tokens=sum(answers)),
                    bitmap=merge.bitmap(range(len(answers) + failures), self.LINES),
                ),
            )
        self.memory.shards.close(self.memory.shards.of(ref)[0])

    def finalize(self) -> Batch:
        """Write the files and end the batch."""
        finalizer = Finalizer(
            batches=self.memory.batches,
            shards=self.memory.shards,
            chunks=self.memory.chunks,
            blobs=self.memory.blobs,
            multipart=self.memory.blobs,
            readers=Inline,
            clock=lambda: START + 10.0,
            timing=Timing(),
        )
        return finalizer.finalize(self.batch.ref, until=START + 60.0)

    def rows(self, file_id: str | None) -> list[dict[str, Any]]:
        """Give the rows of a result file."""
        assert file_id is not None
        return [json.loads(row) for row in self.memory.blobs.get(paths.file("acme", file_id)).splitlines()]


def answer(line: int, size: int) -> bytes:
    """Give a row with an answer of this length, which used as many tokens."""
    usage = {"prompt_tokens": 1, "completion_tokens": size}
    return result_line.answered("batch_1", line, f"id-{line}", {"text": "x" * size, "usage": usage})


def _shard(batch: Batch, lines: int) -> dict[str, Any]:
    cut = plan.Cut([plan.PlanLine(line, 0, 1, f"id-{line}") for line in range(lines)], lines)
    return msgspec.structs.asdict(plan.shard(msgspec.structs.replace(batch, ending=None), REVISION, 0, cut, 0))


ALL = [5] * Ended.LINES


@pytest.mark.parametrize("contract", ["openai", "gridline", "token360"])
def test_a_file_without_rows_is_null(contract: str) -> None:
    """There is nothing to download."""
    batch = Ended(contract, ALL).finalize()
    assert batch.output_file_id is not None
    assert batch.error_file_id is None


@pytest.mark.parametrize("ending", [Ending.COMPLETED, Ending.EXPIRED, Ending.CANCELLED])
def test_boardwalk_has_both_files(ending: Ending) -> None:
    """Be one of them empty: it can be downloaded all the same."""
    ended = Ended("boardwalk", ALL, ending=ending)
    batch = ended.finalize()
    assert [[], 6] == [ended.rows(batch.error_file_id), len(ended.rows(batch.output_file_id))]
    assert batch.error_file_id is not None
    assert 0 == ended.memory.files.get(ended.space, batch.error_file_id).bytes


def test_a_boardwalk_batch_that_failed_has_what_there_is() -> None:
    """A file of rows, and none without."""
    batch = Ended("boardwalk", [], ending=Ending.FAILED).finalize()
    assert (Status.FAILED, None) == (batch.status, batch.output_file_id)
    assert batch.error_file_id is not None


def test_answers_that_do_not_fit_are_errors_and_not_charged() -> None:
    """Of 20 MiB a file takes what it can; counts and usage say what is in it."""
    size = 7 << 20
    ended = Ended("boardwalk", [size, size, size, 9], failures=1)
    batch = ended.finalize()
    assert ["id-0", "id-1", "id-3"] == [row["custom_id"] for row in ended.rows(batch.output_file_id)]
    assert [("id-4", "server_error"), ("id-2", "output_too_large"), ("id-5", "server_error")] == [
        (row["custom_id"], row["error"]["code"]) for row in ended.rows(batch.error_file_id)
    ]
    assert Counts(total=6, completed=3, failed=2) == batch.counts
    assert Usage(input_tokens=3, output_tokens=2 * size + 9) == batch.usage
    assert batch == ended.finalize()


@pytest.mark.parametrize("contract", ["openai", "gridline", "token360"])
def test_elsewhere_a_file_has_any_size(contract: str) -> None:
    """Nothing is left out."""
    batch = Ended(contract, [7 << 20] * 3).finalize()
    assert 3 == batch.counts.completed


@pytest.mark.parametrize(
    ("contract", "fields", "days"),
    [
        ("openai", {}, 30),
        ("openai", {"output_lifetime": 2 * DAY}, 2),
        ("boardwalk", {}, 7),
        ("gridline", {}, 30),
        ("token360", {}, 30),
    ],
)
def test_how_long_results_live(contract: str, fields: dict[str, Any], days: int) -> None:
    """From when they were written."""
    ended = Ended(contract, ALL, **fields)
    batch = ended.finalize()
    assert batch.output_file_id is not None
    assert START + 10 + days * DAY == ended.memory.files.get(ended.space, batch.output_file_id).expires_at


@pytest.mark.parametrize(("contract", "expires_at"), [("boardwalk", START + 10), ("gridline", START + 3 * DAY)])
def test_what_becomes_of_the_input(contract: str, expires_at: int) -> None:
    """Boardwalk removes it with the end of its batch, the others keep it for its time."""
    ended = Ended(contract, ALL)
    ended.finalize()
    file = ended.memory.files.get(ended.space, "file-1")
    assert ((), expires_at) == (file.held_by, file.expires_at)


@pytest.mark.parametrize(
    ("contract", "stops"), [(contract, name != "token360") for name, contract in CONTRACTS.items()]
)
def test_a_deadline_stops_a_batch_or_is_a_forecast(contract: Contract, stops: bool) -> None:  # noqa: FBT001 - a row of the table
    """Of token360 it is a forecast, and nobody has to look when it passes."""
    batch = Ended(contract.name, []).batch
    assert (False, stops) == (is_overdue(batch, START + DAY - 1), is_overdue(batch, START + DAY))
    assert (6 if stops else 900) == Timing().tick(START + DAY - 5, batch)
