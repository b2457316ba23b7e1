"""The services of the API over stores in memory, with a clock that a test turns by hand and ports that it may make hostile."""

from hashlib import sha256
from pathlib import Path

from shared.adapters.ids import Sequence
from shared.adapters.memory import Memory
from shared.core.contracts import CONTRACTS
from shared.core.ids import BatchRef, Space
from shared.core.models import Registry
from shared.core.prefixes import Prefixes
from shared.core.records import ApiKey, File
from shared.core.window import Timing
from shared.ports import (
    BatchStore,
    Blobs,
    ChunkLog,
    Elsewhere,
    FileStore,
    Keys,
    Multipart,
    ScanStarter,
    Shards,
    UploadStore,
    Workflow,
)
from shared.services.acceptance import Acceptance
from shared.services.accounts import Accounts
from shared.services.batches import Batches
from shared.services.callbacks import Callbacks
from shared.services.completions import Completions
from shared.services.delivery import Delivery
from shared.services.dry_run import DryRun
from shared.services.expiries import ExpirySweep
from shared.services.files import Files
from shared.services.progress import Progress
from shared.services.results import Results
from shared.services.s3_files import S3Files
from shared.services.scans import LEG_BYTES, Scans
from shared.services.upload_records import UploadRecords
from shared.services.uploads import PROMPT_BYTES, Uploads

START = 1_800_000_000.0
ACME = Space("acme", "openai")
OPENAI = CONTRACTS["openai"]
REAL_TIME = Timing()
PREFIXES = Prefixes(["s3://lake/{org}", "s3://forbidden/"])
HOSTS = {"inside.example.com": ("93.184.216.34", "10.0.0.7"), "hooks.example.com": ("93.184.216.34",)}
"""What names resolve to; all others do not."""

MODELS = (Path(__file__).parents[2] / "local" / "models.json").read_bytes()

LINE = (
    b'{"custom_id": "%s", "method": "POST", "url": "/v1/chat/completions",'
    b' "body": {"model": "echo", "messages": [{"role": "user", "content": "hi"}]}}\n'
)


def lines(count: int) -> bytes:
    """Give an input file of so many good lines."""
    return b"".join(LINE % str(number).encode() for number in range(count))


def ref(batch_id: str) -> BatchRef:
    """Name a batch of acme."""
    return BatchRef(*ACME, batch_id)


class World:
    """The services, over one memory. A port that is given takes the place of the memory's own."""

    def __init__(
        self,
        memory: Memory | None = None,
        *,
        timing: Timing = REAL_TIME,
        keys: Keys | None = None,
        file_store: FileStore | None = None,
        batch_store: BatchStore | None = None,
        upload_store: UploadStore | None = None,
        blobs: Blobs | None = None,
        multipart: Multipart | None = None,
        workflow: Workflow | None = None,
        scan_starter: ScanStarter | None = None,
        shards: Shards | None = None,
        chunks: ChunkLog | None = None,
        elsewhere: Elsewhere | None = None,
        account_bytes: int | None = None,
        prompt_bytes: int = PROMPT_BYTES,
        leg_bytes: int = LEG_BYTES,
        registry: Registry | None = None,
        account_batches: int = 100,
    ) -> None:
        self.memory = memory or Memory()
        self.time = START
        self.registry = registry or Registry.from_json(MODELS)
        self._ids = Sequence()
        self.files = Files(
            store=file_store or self.memory.files,
            blobs=blobs or self.memory.blobs,
            multipart=self.memory.blobs,
            presigner=self.memory.blobs,
            registry=self.registry,
            timing=timing,
            clock=self.clock,
            new_id=self.new_id,
            account_bytes=account_bytes,
        )
        upload_records = UploadRecords(store=upload_store or self.memory.uploads, files=self.files, clock=self.clock)
        self.uploads = Uploads(
            store=upload_store or self.memory.uploads,
            records=upload_records,
            files=self.files,
            blobs=blobs or self.memory.blobs,
            multipart=multipart or self.memory.blobs,
            presigner=self.memory.blobs,
            timing=timing,
            clock=self.clock,
            new_id=self.new_id,
            prompt_bytes=prompt_bytes,
        )
        self.completions = Completions(
            store=upload_store or self.memory.uploads,
            records=upload_records,
            files=self.files,
            blobs=blobs or self.memory.blobs,
            multipart=multipart or self.memory.blobs,
            inventory=self.memory.blobs,
            scans=scan_starter or self.memory.scans,
            timing=timing,
            prompt_bytes=prompt_bytes,
        )
        self.scans = Scans(
            files=file_store or self.memory.files,
            blobs=blobs or self.memory.blobs,
            multipart=multipart or self.memory.blobs,
            elsewhere=self.memory.elsewhere,
            contracts=CONTRACTS,
            clock=self.clock,
            leg_bytes=leg_bytes,
        )
        self.s3_files = S3Files(
            files=self.files,
            blobs=self.memory.blobs,
            elsewhere=self.memory.elsewhere,
            scans=self.scans,
            starter=self.memory.scans,
            prefixes=PREFIXES,
            timing=timing,
            prompt_bytes=prompt_bytes,
        )
        self.delivery = Delivery(batches=self.memory.batches, elsewhere=elsewhere or self.memory.elsewhere)
        self.expiries = ExpirySweep(
            expiries=self.memory.uploads,
            file_store=file_store or self.memory.files,
            upload_store=self.memory.uploads,
            blobs=self.memory.blobs,
            multipart=self.memory.blobs,
            scans=self.memory.scans,
            clock=self.clock,
        )
        self.progress = Progress(shards=self.memory.shards, blobs=blobs or self.memory.blobs, clock=self.clock)
        acceptance = Acceptance(
            blobs=blobs or self.memory.blobs,
            registry=self.registry,
            callbacks=Callbacks(lambda host: HOSTS.get(host, ())),
            timing=timing,
            account_batches=account_batches,
            prefixes=PREFIXES,
        )
        self.batches = Batches(
            store=batch_store or self.memory.batches,
            files=self.files,
            acceptance=acceptance,
            progress=self.progress,
            workflow=workflow or self.memory.workflow,
            timing=timing,
            clock=self.clock,
            new_id=self.new_id,
        )
        self.dry_run = DryRun(
            batches=self.batches, acceptance=acceptance, blobs=blobs or self.memory.blobs, registry=self.registry
        )
        self.results = Results(
            batches=self.batches,
            shards=shards or self.memory.shards,
            chunks=chunks or self.memory.chunks,
            files=self.files,
            blobs=blobs or self.memory.blobs,
            presigner=self.memory.blobs,
        )
        self.accounts = Accounts(keys or self.memory.keys, clock=self.clock)

    def clock(self) -> float:
        """Give the time that the test has set."""
        return self.time

    def new_id(self, prefix: str) -> str:
        """Give the next id."""
        return self._ids.next(prefix, int(self.time * 1000))

    def add_key(self, secret: str, org: str, *scopes: str) -> None:
        """Let a key in."""
        self.memory.keys.put(ApiKey(org=org, hash=sha256(secret.encode()).hexdigest(), scopes=scopes))

    def take_in(self, content: bytes | None = None) -> File:
        """Take a file of two lines in, or this one."""
        intake = self.files.begin(ACME, OPENAI, "requests.jsonl")
        intake.write(content or lines(2))
        return intake.finish(purpose="batch")

    def request(self, input_file_id: str | None = None) -> dict[str, object]:
        """Give the body of a create, of this file or a new one."""
        file_id = input_file_id or self.take_in().id
        return {"input_file_id": file_id, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
