"""The tables as data: the local stack and the CDK stack make them from here, so that they cannot differ.

Every table has a partition key `pk` and a sort key `sk`, both strings, is on demand, and has no TTL: what expires is removed by the sweep, which
removes the bytes as well.

    table     pk                        sk                                       what
    accounts  key#<sha256>              key                                      an API key
    files     <org>/<contract>          <file id>                                a file
              <org>/<contract>/uploads  <upload id>                              an upload
              <org>/<contract>/stored   stored                                   how much is stored there
    batches   <org>/<contract>          <batch id>                               a batch
              <org>                     key#<sha256 of the key>                  an idempotency key
              <org>                     open                                     the ids of its unfinished batches
    shards    <org>/<contract>/<batch>  S#<index>                                a shard
                                        C#<shard>#<epoch>#<number>               a committed chunk
    models    <revision>                workers                                  the workers of a revision

All indexes are sparse: `open` holds the batches that have not ended, `queue` the shards that are ready and those that are leased, by revision and rank,
`due` the files and uploads that the sweep has to look at, by time.
"""

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import CreateTableInputTypeDef

PARTITION = "pk"
SORT = "sk"


class Index(NamedTuple):
    """A global secondary index; its attributes are strings."""

    name: str
    partition: str
    sort: str
    projection: Literal["ALL", "KEYS_ONLY"]


class Table(NamedTuple):
    """A table: its name after the deployment's prefix, and its indexes."""

    name: str
    indexes: tuple[Index, ...] = ()

    def named(self, prefix: str) -> str:
        """Give the table's name in the deployment with this prefix."""
        return f"{prefix}-{self.name}"


OPEN = Index("open", partition="open", sort=SORT, projection="KEYS_ONLY")
QUEUE = Index("queue", partition="queue", sort="rank", projection="ALL")
DUE = Index("due", partition="due", sort="due_at", projection="KEYS_ONLY")

ACCOUNTS = Table("accounts")
FILES = Table("files", (DUE,))
BATCHES = Table("batches", (OPEN,))
SHARDS = Table("shards", (QUEUE,))
MODELS = Table("models")

TABLES = (ACCOUNTS, FILES, BATCHES, SHARDS, MODELS)


def due(at: int) -> dict[str, str]:
    """Give the attributes by which an item that is due at this Unix time is in the index."""
    return {DUE.partition: "due", DUE.sort: f"{at:012d}"}


def creation(table: Table, prefix: str) -> "CreateTableInputTypeDef":
    """Give the arguments of CreateTable that make the table."""
    attributes = {PARTITION, SORT}.union(*((index.partition, index.sort) for index in table.indexes))
    request: CreateTableInputTypeDef = {
        "TableName": table.named(prefix),
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in sorted(attributes)],
        "KeySchema": [
            {"AttributeName": PARTITION, "KeyType": "HASH"},
            {"AttributeName": SORT, "KeyType": "RANGE"},
        ],
    }
    if table.indexes:
        request["GlobalSecondaryIndexes"] = [
            {
                "IndexName": index.name,
                "KeySchema": [
                    {"AttributeName": index.partition, "KeyType": "HASH"},
                    {"AttributeName": index.sort, "KeyType": "RANGE"},
                ],
                "Projection": {"ProjectionType": index.projection},
            }
            for index in table.indexes
        ]
    return request
