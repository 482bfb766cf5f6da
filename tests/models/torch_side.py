"""What transformers and torch make of saved models; run as a program of its own.

    PYTHON tests/models/torch_side.py REQUEST.npz ANSWER.npz

The request holds a row of token ids [T] for each model folder ("ids/FOLDER") or a
config.json as text ("config/NAME"). The answer holds float32 logits [T, V] of each
folder and, for each configuration, the rotary frequencies [d / 2] and the amplitude.
"""

import json
import sys

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS


def logits(folder: str, ids: np.ndarray) -> np.ndarray:
    """Logits of one row, in float32."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        return model(torch.from_numpy(ids).long()[None]).logits[0].numpy()


def mean_log_probs(folder: str, rows: np.ndarray) -> np.ndarray:
    """Mean log-probability of each row's tokens but the first; -1 pads."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    means = []
    for row in rows:
        ids = torch.from_numpy(row[row >= 0]).long()
        with torch.no_grad():
            table = model(ids[None]).logits[0].double().log_softmax(-1)
        means.append(table[:-1].gather(1, ids[1:, None]).mean().item())
    return np.array(means)


def rotary(text: str) -> tuple[np.ndarray, float]:
    """Frequencies and amplitude of a scaled configuration."""
    fields = json.loads(text)
    config = AutoConfig.for_model(**fields)
    make = ROPE_INIT_FUNCTIONS[config.rope_parameters["rope_type"]]
    frequencies, amplitude = make(config, "cpu")
    return frequencies.numpy(), amplitude


def main() -> None:
    """The program."""
    request, answer = np.load(sys.argv[1]), {}
    for key in request.files:
        kind, _, name = key.partition("/")
        if kind == "ids":
            answer[key] = logits(f"/{name.lstrip('/')}", request[key])
        elif kind == "rows":
            answer[key] = mean_log_probs(f"/{name.lstrip('/')}", request[key])
        else:
            frequencies, amplitude = rotary(str(request[key]))
            answer[f"{key}/frequencies"] = frequencies
            answer[f"{key}/amplitude"] = np.array(amplitude)
    np.savez(sys.argv[2], **answer)


if __name__ == "__main__":
    main()
