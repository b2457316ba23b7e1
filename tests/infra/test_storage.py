"""What is kept, and how."""

import pytest

from infra.storage import ABANDONED_DAYS
from shared.adapters.dynamodb.tables import TABLES, Table, creation
from shared.core.contract import LONGEST_LIFE
from shared.core.contracts import CONTRACTS
from tests.infra.template import Template

DAY = 86400


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_table_is_what_the_code_says(template: Template, table: Table) -> None:
    """Name, keys and indexes are those with which the local stack makes it."""
    said = dict(creation(table, "slackwater"))
    made = template.of_type("AWS::DynamoDB::Table")
    (properties,) = (each for each in made.values() if each["TableName"] == said["TableName"])
    properties["AttributeDefinitions"] = sorted(
        properties["AttributeDefinitions"], key=lambda each: each["AttributeName"]
    )
    assert said == {name: properties[name] for name in said}


def test_there_are_no_other_tables(template: Template) -> None:
    """Nothing is kept where the code does not look."""
    assert len(TABLES) == len(template.of_type("AWS::DynamoDB::Table"))


def test_tables_can_be_recovered_and_not_be_deleted_by_mistake(template: Template) -> None:
    """Each is encrypted with our key, has point-in-time recovery and is protected from deletion."""
    assert [(True, True, "KMS")] * len(TABLES) == [
        (
            properties["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"],
            properties["DeletionProtectionEnabled"],
            properties["SSESpecification"]["SSEType"],
        )
        for properties in template.of_type("AWS::DynamoDB::Table").values()
    ]


@pytest.mark.parametrize("kind", ["AWS::DynamoDB::Table", "AWS::S3::Bucket", "AWS::KMS::Key"])
def test_what_is_kept_outlives_the_stack(template: Template, kind: str) -> None:
    """Neither a deletion of the stack nor a replacement takes data with it, nor the key to them."""
    kept = [resource for resource in template.resources.values() if resource["Type"] == kind]
    policies = {(resource["DeletionPolicy"], resource["UpdateReplacePolicy"]) for resource in kept}
    assert {("Retain", "Retain")} == policies


def test_the_bucket_is_public_to_nobody(template: Template) -> None:
    """Neither by list nor by policy."""
    blocked = template.only("AWS::S3::Bucket")["PublicAccessBlockConfiguration"]
    assert (
        dict.fromkeys(("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets"), True)
        == blocked
    )


def test_the_bucket_is_encrypted_with_our_key(template: Template) -> None:
    """With a bucket key, so that a chunk is not a call to KMS."""
    (rule,) = template.only("AWS::S3::Bucket")["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    (key,) = template.of_type("AWS::KMS::Key")
    used = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": f"{key}.Arn"}
    assert {"BucketKeyEnabled": True, "ServerSideEncryptionByDefault": used} == rule


def test_the_bucket_takes_tls_alone(template: Template) -> None:
    """Whoever comes without, or with an old one, is refused everything."""
    (policy,) = template.of_type("AWS::S3::BucketPolicy").values()
    refused = [
        statement["Condition"]
        for statement in policy["PolicyDocument"]["Statement"]
        if (statement["Effect"], statement["Action"]) == ("Deny", "s3:*")
    ]
    assert [{"Bool": {"aws:SecureTransport": "false"}}, {"NumericLessThan": {"s3:TlsVersion": 1.2}}] == refused


def test_what_is_deleted_is_gone(template: Template) -> None:
    """Without versions: a caller's prompts do not live on as old ones."""
    assert "VersioningConfiguration" not in template.only("AWS::S3::Bucket")


def test_abandoned_uploads_are_removed(template: Template) -> None:
    """Their parts cost, and nobody sees them."""
    rules = template.only("AWS::S3::Bucket")["LifecycleConfiguration"]["Rules"]
    found = [rule["AbortIncompleteMultipartUpload"] for rule in rules if "AbortIncompleteMultipartUpload" in rule]
    assert [{"DaysAfterInitiation": ABANDONED_DAYS}] == found


def test_the_backstop_outlasts_every_contract(template: Template) -> None:
    """An object that is removed by age is one that no contract promises any more, and no batch can still read."""
    rules = template.only("AWS::S3::Bucket")["LifecycleConfiguration"]["Rules"]
    (days,) = (rule["ExpirationInDays"] for rule in rules if "ExpirationInDays" in rule)
    for contract in CONTRACTS.values():
        longest = max(contract.input_lifetime, contract.result_lifetime, contract.expires_after[1], LONGEST_LIFE)
        assert days * DAY > longest + max(contract.windows.values())


def test_every_log_is_encrypted_and_ends(template: Template) -> None:
    """With our key, after a month."""
    (key,) = template.of_type("AWS::KMS::Key")
    groups = template.of_type("AWS::Logs::LogGroup").values()
    assert {(f"{key}.Arn", 30)} == {(group["KmsKeyId"], group["RetentionInDays"]) for group in groups}


def test_cloudwatch_may_use_the_key_for_our_logs_alone(template: Template) -> None:
    """Its statement is bound to log groups of this account."""
    statements = template.only("AWS::KMS::Key")["KeyPolicy"]["Statement"]
    bound = [
        (statement["Principal"]["Service"], statement["Condition"]["ArnLike"])
        for statement in statements
        if "Service" in statement["Principal"]
    ]
    groups = "arn:aws:logs:eu-west-1:123456789012:log-group:*"
    assert [("logs.eu-west-1.amazonaws.com", {"kms:EncryptionContext:aws:logs:arn": groups})] == bound
