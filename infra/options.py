"""What can be chosen for a deployment: CDK context under `slackwater:`, in cdk.json or as `-c slackwater:name=staging`."""

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

from shared.core.contracts import MOUNTS, WINDOWS, mounted

PREFIX = "slackwater:"


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The choices of one deployment.

    Attributes:
        name: The stack, and what the names of its tables, state machine and queue begin with; one for each deployment of an account and region.
        bundle: Whether the Lambdas' dependencies are installed into their code; without, the template is right but nothing to deploy.
        egress: How workers reach the internet (`infra.network`).
        on_demand: Whether On-Demand instances stand in when there is no Spot capacity.
        max_workers: The most workers of one model at a time.
        mounts: Which contracts are offered, and where: `openai=/v1,gridline=/gridline/openai/v1`.
        windows: The completion windows of `openai`, which leaves them to the deployment: `24h,72h`.
        account_bytes: The most bytes that an organization may store under a contract that sets no limit; None: no limit.
        account_batches: The most unfinished batches that an organization may have, under all contracts together.
        s3_prefixes: Where in S3 files may come from and results may go (`ApiSettings.s3_prefixes`); the other bucket's policy has to agree.

    """

    name: Annotated[str, msgspec.Meta(pattern="^[a-z][a-z0-9-]{0,30}$")] = "slackwater"
    bundle: bool = False
    egress: Literal["public-address", "nat"] = "public-address"
    on_demand: bool = False
    max_workers: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 8
    mounts: str = MOUNTS
    windows: str = WINDOWS
    account_bytes: Annotated[int, msgspec.Meta(ge=1)] | None = None
    account_batches: Annotated[int, msgspec.Meta(ge=1)] = 100
    s3_prefixes: str = ""

    def __post_init__(self) -> None:
        """Refuse mounts and windows that cannot be: they would only be seen in a Lambda that does not start."""
        mounted(self.mounts, self.windows)

    @classmethod
    def from_context(cls, context: Mapping[str, object]) -> "Options":
        """Read the choices among the context; what the command line gives are strings. msgspec.ValidationError names what is wrong."""
        ours = {key.removeprefix(PREFIX): value for key, value in context.items() if key.startswith(PREFIX)}
        return msgspec.convert(ours, cls, strict=False)
