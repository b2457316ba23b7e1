"""The fleet: AWS Batch jobs, each a worker of one model revision.

A submission is not idempotent: of one whose answer was lost, the worker itself tells when it starts.
"""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from shared.adapters.errors import translated

if TYPE_CHECKING:
    from mypy_boto3_batch import BatchClient

SHARE_CHARS = 255
AT_ONCE = 100  # the most jobs that one DescribeJobs takes
OVER = frozenset({"FAILED", "SUCCEEDED"})


class AwsBatchFleet:
    """`shared.ports.Fleet` over one job queue.

    Args:
        client: boto3's.
        queue: The name or ARN of the job queue.
        definitions: The job definition of each revision that has one of its own.
        default: The job definition of all others.

    """

    def __init__(self, client: "BatchClient", *, queue: str, definitions: Mapping[str, str], default: str) -> None:
        self._client = client
        self._queue = queue
        self._definitions = definitions
        self._default = default

    def submit(self, revision: str, worker: str) -> str:
        """Submit a job named like the worker and give its id."""
        with translated():
            answer = self._client.submit_job(
                jobName=worker,
                jobQueue=self._queue,
                jobDefinition=self._definitions.get(revision, self._default),
                # The queue is fair between revisions; a share's name has letters and digits only.
                shareIdentifier=re.sub("[^0-9A-Za-z]", "", revision)[:SHARE_CHARS],
                containerOverrides={
                    "environment": [
                        {"name": "SLACKWATER_REVISION", "value": revision},
                        {"name": "SLACKWATER_WORKER", "value": worker},
                    ]
                },
            )
        return answer["jobId"]

    def ended(self, jobs: Sequence[str]) -> set[str]:
        """Give those that succeeded or failed, or that AWS Batch does not know (any more)."""
        live = set()
        for start in range(0, len(jobs), AT_ONCE):
            with translated():
                answer = self._client.describe_jobs(jobs=jobs[start : start + AT_ONCE])
            live |= {job["jobId"] for job in answer["jobs"] if job["status"] not in OVER}
        return set(jobs) - live
