"""Write the golden losses: TRL's own `_compute_loss`, called on numbers.

Run in an environment with torch and trl (the project needs neither; trl may come
without its own dependencies, its module is only read):

    python tests/goldens/trl/make_goldens.py

goldens.npz gets the inputs and, for each setting, the loss and its gradient by the
log-probs of the completion tokens. A change of this file means that TRL changed.
"""

import ast
import collections
import importlib.metadata
import importlib.util
import pathlib
import types
import unittest.mock

import numpy as np
import torch

HERE = pathlib.Path(__file__).parent
PROMPTS, SAMPLES, LENGTH, MAX_LENGTH = 2, 4, 9, 12
SETTINGS = {
    "grpo": {"loss_type": "grpo"},
    "grpo_kl": {"loss_type": "grpo", "beta": 0.04},
    "dapo": {"loss_type": "dapo", "epsilon_high": 0.28},
    "dapo_tis": {"loss_type": "dapo", "tis": True},
    "dapo_delta": {"loss_type": "dapo", "delta": 1.5},
    "dr_grpo": {"loss_type": "dr_grpo"},
    "gspo": {
        "loss_type": "grpo",
        "importance_sampling_level": "sequence",
        "epsilon_low": 0.02,
        "epsilon_high": 0.03,
    },
    "cispo": {"loss_type": "cispo", "epsilon_high": 1.4},
}


def method(module, name):
    """The function `name` of the trainer class of a module of TRL, without import."""
    root = pathlib.Path(importlib.util.find_spec("trl").origin).parent
    path = root / "trainer" / f"{module}.py"
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            space = {"torch": torch, "nanmin": torch.min, "nanmax": torch.max}
            exec(compile(ast.Module([node], []), str(path), "exec"), space)
            return space[name]
    raise LookupError(f"{path} has no {name}")


def inputs():
    rng = np.random.default_rng(0)
    rows = PROMPTS * SAMPLES
    lengths = rng.integers(1, LENGTH + 1, rows)
    log_probs = -rng.exponential(size=(rows, LENGTH))
    arrays = {
        "log_probs": log_probs,
        "rewards": rng.random((PROMPTS, SAMPLES)),
        "lengths": lengths,
    }
    for name, scale in (("old", 0.3), ("ref", 0.3), ("sampler", 0.5)):
        arrays[name] = log_probs + rng.normal(scale=scale, size=log_probs.shape)
    return arrays


def advantages_of(rewards, *, leave_one_out):
    """What both trainers hand to their losses; GRPO's here without its 1e-4."""
    if leave_one_out:
        others = (rewards.sum(1, keepdims=True) - rewards) / (SAMPLES - 1)
        return (rewards - others).ravel()
    center = rewards - rewards.mean(1, keepdims=True)
    return (center / rewards.std(1, ddof=1, keepdims=True)).ravel()


def trainer(log_probs, **settings):
    """A stand-in for the trainer: what `_compute_loss` reads of it."""
    own = types.SimpleNamespace(
        importance_sampling_level="token",
        epsilon_low=0.2,
        epsilon_high=0.2,
        beta=0.0,
        use_vllm=settings.get("tis", False),
        vllm_importance_sampling_correction=True,
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        aux_loss_enabled=False,
        _entropy_bonus_enabled=False,
        max_completion_length=MAX_LENGTH,
        current_gradient_accumulation_steps=1,
        accelerator=unittest.mock.Mock(
            num_processes=1,
            gather=lambda x: x,
            reduce=lambda x, reduction: x,
        ),
        args=types.SimpleNamespace(
            delta=settings.pop("delta", None),
            use_bias_correction_kl=False,
            steps_per_generation=1,
        ),
        model=types.SimpleNamespace(training=False),
        _metrics={"eval": collections.defaultdict(list)},
        _get_per_token_logps_and_entropies=lambda *_, **__: (
            log_probs,
            torch.zeros_like(log_probs),
            None,
        ),
    )
    vars(own).update(settings)
    return own


def golden(arrays, module, advantages, **settings):
    """(loss, gradient by log_probs) of TRL."""
    log_probs = torch.tensor(arrays["log_probs"], requires_grad=True)
    mask = torch.arange(LENGTH)[None] < torch.tensor(arrays["lengths"])[:, None]
    prompt = torch.zeros((len(mask), 1), dtype=torch.long)
    batch = {
        "prompt_ids": prompt,
        "prompt_mask": prompt + 1,
        "completion_ids": torch.zeros(mask.shape, dtype=torch.long),
        "completion_mask": mask.long(),
        "advantages": torch.tensor(advantages),
        "old_per_token_logps": torch.tensor(arrays["old"]),
        "ref_per_token_logps": torch.tensor(arrays["ref"]),
        "old_logps": (log_probs * mask).sum(1).detach(),  # RLOO, on its own policy
        "num_items_in_batch": mask.sum(),
        "importance_sampling_ratio": torch.clamp(
            torch.exp(torch.tensor(arrays["old"] - arrays["sampler"])), max=2.0
        ),
    }
    loss = method(module, "_compute_loss")(
        trainer(log_probs, **settings), unittest.mock.Mock(), batch
    )
    loss.backward()
    return loss.item(), log_probs.grad.numpy()


def main():
    arrays = inputs()
    kept = {f"input/{name}": values for name, values in arrays.items()}
    kept["trl"] = np.array(importlib.metadata.version("trl"))
    grouped = advantages_of(arrays["rewards"], leave_one_out=False)
    others = advantages_of(arrays["rewards"], leave_one_out=True)
    for name, settings in SETTINGS.items():
        kept[f"{name}/loss"], kept[f"{name}/slope"] = golden(
            arrays, "grpo_trainer", grouped, **settings
        )
    kept["rloo/loss"], kept["rloo/slope"] = golden(arrays, "rloo_trainer", others)
    np.savez(HERE / "goldens.npz", **kept)


if __name__ == "__main__":
    main()
