"""A synthesized template as the tests read it: resources by type, and values with CloudFormation's functions carried out."""

import json
import re
from pathlib import Path
from typing import Any, Final

REGION: Final = "eu-west-1"
ACCOUNT: Final = "123456789012"
BUCKET: Final = "files-and-chunks"
"""What CloudFormation would have called the one bucket."""
PSEUDO = {
    "AWS::Region": REGION,
    "AWS::AccountId": ACCOUNT,
    "AWS::Partition": "aws",
    "AWS::URLSuffix": "amazonaws.com",
}


class Template:
    """A template, as if deployed: a resource's Ref is its name where it has one and its logical id otherwise."""

    def __init__(self, path: Path) -> None:
        self.text = path.read_text()
        template = json.loads(self.text)
        self.resources: dict[str, dict[str, Any]] = template["Resources"]
        self.outputs: dict[str, dict[str, Any]] = template["Outputs"]

    def of_type(self, kind: str) -> dict[str, dict[str, Any]]:
        """Give the resolved properties of all resources of a type, by logical id."""
        return {
            name: self.resolve(resource.get("Properties", {}))
            for name, resource in self.resources.items()
            if resource["Type"] == kind
        }

    def only(self, kind: str) -> dict[str, Any]:
        """Give the resolved properties of the one resource of a type."""
        (properties,) = self.of_type(kind).values()
        return properties

    def function(self, module: str) -> dict[str, Any]:
        """Give the resolved properties of the Lambda that runs a module's handler."""
        found = self.of_type("AWS::Lambda::Function").values()
        (properties,) = (properties for properties in found if properties["Handler"] == f"{module}.handler")
        return properties

    def statements(self, role: str) -> list[dict[str, Any]]:
        """Give the statements of the policies of a role, with lists for actions and resources; `role` is as `resolve` gives it."""
        policies = self.of_type("AWS::IAM::Policy").values()
        attached = [policy for policy in policies if role.removesuffix(".Arn") in policy["Roles"]]
        return [_listed(statement) for policy in attached for statement in policy["PolicyDocument"]["Statement"]]

    def resolve(self, value: Any) -> Any:  # noqa: PLR0911 - a case a function of CloudFormation
        """Carry out the functions in a value."""
        match value:
            case {"Ref": name}:
                return PSEUDO.get(name) or self._named(name)
            case {"Fn::GetAtt": [name, attribute]}:
                return self._arn(name) if attribute == "Arn" else f"{name}.{attribute}"
            case {"Fn::Join": [separator, parts]}:
                return separator.join(map(str, map(self.resolve, parts)))
            case {"Fn::Sub": str(text)}:
                return re.sub(r"\$\{([\w:]+)\}", lambda found: str(self.resolve({"Ref": found[1]})), text)
            case {"Fn::Base64": text}:
                return self.resolve(text)
            case dict():
                return {key: self.resolve(item) for key, item in value.items()}
            case list():
                return [self.resolve(item) for item in value]
            case _:
                return value

    def _named(self, name: str) -> str:
        if self._type(name) == "AWS::S3::Bucket":
            return BUCKET
        named = self.resources.get(name, {}).get("Properties", {}).get("TableName")
        return named if isinstance(named, str) else name

    def _arn(self, name: str) -> str:
        match self._type(name):
            case "AWS::DynamoDB::Table":
                return f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{self._named(name)}"
            case "AWS::S3::Bucket":
                return f"arn:aws:s3:::{BUCKET}"
            case _:
                return f"{name}.Arn"

    def _type(self, name: str) -> str:
        kind: str = self.resources.get(name, {}).get("Type", "")
        return kind


def _listed(statement: dict[str, Any]) -> dict[str, Any]:
    return {
        **statement,
        **{key: _list(statement[key]) for key in ("Action", "Resource")},
    }


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
