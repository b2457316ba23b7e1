"""What a request body holds that some contract refuses: noted by the scan for every line, judged when the contract is known.

A field counts when it is there and not null: what a contract does not serve is never silently ignored.
"""

from enum import IntFlag, auto


class Fact(IntFlag):
    """Something notable in a body; a set of them is their union."""

    TOOLS = auto()
    TOOL_CHOICE = auto()
    LOGIT_BIAS = auto()
    SERVICE_TIER = auto()
    STORE = auto()
    PREDICTION = auto()
    IMAGE = auto()
    AUDIO = auto()
    VIDEO = auto()
    FILE = auto()


NOTHING = Fact(0)

FIELDS: dict[str, Fact] = {
    "tools": Fact.TOOLS,
    "functions": Fact.TOOLS,
    "tool_choice": Fact.TOOL_CHOICE,
    "function_call": Fact.TOOL_CHOICE,
    "logit_bias": Fact.LOGIT_BIAS,
    "service_tier": Fact.SERVICE_TIER,
    "store": Fact.STORE,
    "prediction": Fact.PREDICTION,
}
"""Fields of a body."""

PARTS: dict[str, Fact] = {
    "image_url": Fact.IMAGE,
    "input_image": Fact.IMAGE,
    "input_audio": Fact.AUDIO,
    "audio_url": Fact.AUDIO,
    "video_url": Fact.VIDEO,
    "file": Fact.FILE,
    "input_file": Fact.FILE,
}
"""Types of the parts of a message's content."""

PARAMS: dict[Fact, str] = {
    **{fact: f"body.{name}" for name, fact in reversed(FIELDS.items())},
    **dict.fromkeys(PARTS.values(), "body.messages"),
}
"""Which field holds it, as an error names it."""
