"""LoRA adapters for tests: random ones, written as files. They change what a model says, and how is nobody's matter."""

import json
import random
import struct
from array import array
from pathlib import Path
from typing import Any

LAYERS = 30
WIDTH = 576
PROJECTIONS = {"q_proj": 576, "v_proj": 192}
"""SmolLM2-135M: what goes into a projection, and what comes out."""
RANK = 8
STRENGTH = 0.05


def write(folder: Path, seed: int, *, width: int = WIDTH) -> Path:
    """Write an adapter of SmolLM2-135M in peft's format. Of another `width` it is damaged."""
    folder.mkdir(parents=True)
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": "HuggingFaceTB/SmolLM2-135M-Instruct",
        "r": RANK,
        "lora_alpha": 2 * RANK,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": list(PROJECTIONS),
    }
    (folder / "adapter_config.json").write_text(json.dumps(config))
    dice = random.Random(seed)
    header: dict[str, Any] = {}
    data = bytearray()
    for layer in range(LAYERS):
        for name, out in PROJECTIONS.items():
            for half, shape in (("A", (RANK, width)), ("B", (out, RANK))):
                weights = array("f", (dice.gauss(0, STRENGTH) for _ in range(shape[0] * shape[1])))
                start = len(data)
                data += weights.tobytes()
                tensor = f"base_model.model.model.layers.{layer}.self_attn.{name}.lora_{half}.weight"
                header[tensor] = {"dtype": "F32", "shape": shape, "data_offsets": (start, len(data))}
    said = json.dumps(header).encode()
    (folder / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(said)) + said + data)
    return folder


def described(base: dict[str, Any], name: str, folder: Path) -> dict[str, Any]:
    """Give the entry of an adapter in the models file, beside that of its base."""
    size = sum(path.stat().st_size for path in folder.iterdir())
    own = {"id": f"ft:{base['id']}:{name}", "revision": f"ft:{base['id']}:{name}@1", "source": str(folder)}
    return {
        **{field: base[field] for field in ("engine", "endpoints", "context", "max_output")},
        **own,
        "base": base["id"],
        "rank": RANK,
        "adapter_bytes": size,
    }
