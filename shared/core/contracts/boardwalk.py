"""The `boardwalk` contract: small files that are judged at the upload, so that a batch runs from its creation; BatchRouter's assignments."""

from shared.core.contract import DAY, HOUR, MIB, Contract, Judged, MetadataRule
from shared.core.records import Status
from shared.core.room import Room

CONTRACT = Contract(
    name="boardwalk",
    endpoints=("/v1/chat/completions",),
    windows={"24h": 24 * HOUR},
    metadata=MetadataRule.ASSIGNMENT,
    key_required=True,
    judged=Judged.AT_UPLOAD,
    first_status=Status.IN_PROGRESS,
    file_bytes=256 * MIB,
    storage=Room(bytes=1 << 30, inputs_only=True),
    file_requests=1000,
    private_requests=95,
    file_suffix="",
    names_files=True,
    lists_files=False,
    custom_id_bytes=128,
    cap_required=True,
    open_batches=4,
    result_bytes=20 * MIB,
    both_files=True,
    extras=("pricing",),
    input_lifetime=24 * HOUR,
    used_lifetime=24 * HOUR,  # with the window: 48 hours from the acceptance
    input_ends_with_batch=True,
    result_lifetime=7 * DAY,
    expires_after=(HOUR, 24 * HOUR),
    write_scopes=frozenset({"inference:write"}),
    read_scopes=frozenset({"inference:write", "requests:read"}),
)
