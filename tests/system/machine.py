"""A small interpreter of the state machine: of those parts of the Amazon States Language that ours uses, and no others.

It reads the deployed file itself. Waits, retries and timeouts pass in the loop's time. What it does not know it refuses with a KeyError or
a ValueError, so that a new feature in the file fails here rather than being passed over.
"""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

ASL = Path(__file__).parents[2] / "infra" / "lifecycle.asl.json"

Invoke = Callable[[str, Any], Awaitable[Any]]
"""Calls the function of a state, by the name of its placeholder, with its payload."""

_PLACEHOLDER = re.compile(r"\$\{(\w+)Function\}")


class StateError(Exception):
    """A state failed, and nothing retried or caught it: the execution has failed."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class Machine:
    """The state machine.

    Attributes:
        visited: The states that were entered, in order, each with the name of its execution.

    """

    def __init__(self, invoke: Invoke) -> None:
        self._definition: Mapping[str, Any] = json.loads(ASL.read_bytes())
        self._invoke = invoke
        self._numbers = count(1)
        self._waiting: dict[str, asyncio.Future[None]] = {}
        self.visited: list[tuple[str, str]] = []

    def send(self, token: str) -> None:
        """Wake the state that waits with the token, if one still does."""
        waiting = self._waiting.get(token)
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    async def execute(self, name: str, value: Any) -> None:
        """Run an execution to its end; StateError when it fails."""
        at = self._definition["StartAt"]
        while True:
            self.visited.append((name, at))
            state = self._definition["States"][at]
            if state["Type"] == "Succeed":
                return
            if state["Type"] == "Task":
                at, value = await self._task(state, value, name)
            elif state["Type"] == "Choice":
                at = _choose(state, value)
            elif state["Type"] == "Wait":
                await asyncio.sleep(state["Seconds"])
                at = state["Next"]
            else:
                raise ValueError(f"a state of type {state['Type']}")

    async def _task(self, state: Mapping[str, Any], value: Any, name: str) -> tuple[str, Any]:
        tries: Counter[int] = Counter()
        while True:
            try:
                result = await self._attempt(state, value, name)
            except StateError as error:
                pause = _pause(state, error.name, tries)
                if pause is not None:
                    await asyncio.sleep(pause)
                    continue
                catcher = _matching(state.get("Catch", ()), error.name)
                if catcher is None:
                    raise
                return catcher["Next"], _placed(catcher, value, {"Error": error.name})
            value = _placed(state, value, result)
            return state["Next"], _at(state.get("OutputPath", "$"), value)

    async def _attempt(self, state: Mapping[str, Any], value: Any, name: str) -> Any:
        token = f"{name}/{next(self._numbers)}"
        context = {"Execution": {"Name": name}, "Task": {"Token": token}}
        parameters = _filled(state["Parameters"], value, context)
        function = _PLACEHOLDER.fullmatch(parameters["FunctionName"])
        if function is None:
            raise ValueError(f"no placeholder of a function: {parameters['FunctionName']}")
        limit = _at(state["TimeoutSecondsPath"], value) if "TimeoutSecondsPath" in state else None
        waiting = self._waiting[token] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(limit):
                payload = await self._called(function[1], parameters["Payload"])
                if state["Resource"].endswith(".waitForTaskToken"):
                    await waiting
                    return {}
                return {"Payload": payload}
        except TimeoutError:
            raise StateError("States.Timeout") from None
        finally:
            del self._waiting[token]

    async def _called(self, function: str, payload: Any) -> Any:
        try:
            return await self._invoke(function, payload)
        except Exception as error:  # what a function raises, Lambda names by its class
            raise StateError(type(error).__name__) from error


def _choose(state: Mapping[str, Any], value: Any) -> str:
    for choice in state["Choices"]:
        if _at(choice["Variable"], value) == choice["StringEquals"]:
            return str(choice["Next"])
    return str(state["Default"])


def _matching(rules: Any, error: str) -> Any:
    names = {error, "States.ALL"} | (set() if error == "States.Timeout" else {"States.TaskFailed"})
    return next((rule for rule in rules if names & set(rule["ErrorEquals"])), None)


def _pause(state: Mapping[str, Any], error: str, tries: "Counter[int]") -> float | None:
    rule = _matching(state.get("Retry", ()), error)
    if rule is None or tries[id(rule)] >= rule["MaxAttempts"]:
        return None
    pause = rule["IntervalSeconds"] * rule["BackoffRate"] ** tries[id(rule)]
    tries[id(rule)] += 1
    return float(min(pause, rule.get("MaxDelaySeconds", pause)))


def _at(path: str, value: Any, context: Any = None) -> Any:
    root, *names = path.split(".")
    value = {"$": value, "$$": context}[root]
    for name in names:
        value = value[name]
    return value


def _filled(template: Any, value: Any, context: Any) -> Any:
    if not isinstance(template, dict):
        return template
    return {
        name.removesuffix(".$"): _at(part, value, context) if name.endswith(".$") else _filled(part, value, context)
        for name, part in template.items()
    }


def _placed(rule: Mapping[str, Any], value: Any, result: Any) -> Any:
    path = rule.get("ResultPath", "$")
    if path is None:
        return value
    return result if path == "$" else {**value, path.removeprefix("$."): result}
