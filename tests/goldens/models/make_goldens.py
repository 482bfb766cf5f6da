"""Write the golden logits: tiny random models of transformers + torch.

Run in an environment with torch and transformers 5 (the project needs neither):

    python tests/goldens/models/make_goldens.py

Names after it are the folders to write; without any, all are. Each folder gets
config.json, model.safetensors and logits.npz (tokens [B, T], float32 logits [B, T, V]).
A change of these files means that the reference changed.
"""

import json
import pathlib
import sys

import numpy as np
import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Olmo2Config,
    Olmo2ForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

HERE = pathlib.Path(__file__).parent
SIZES = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "initializer_range": 0.2,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
# Small ones: rows of 23 tokens are longer than the contexts that are stretched.
SMALL = {
    **SIZES,
    "vocab_size": 53,
    "hidden_size": 24,
    "intermediate_size": 32,
    "max_position_embeddings": 4096,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 100.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 100.0,
    "factor": 4.0,
    "original_max_position_embeddings": 1024,
}
MODELS = {
    "llama_tied": (
        LlamaForCausalLM,
        LlamaConfig(
            **SIZES,
            tie_word_embeddings=True,
            rms_norm_eps=1e-5,
            rope_parameters={"rope_type": "default", "rope_theta": 100000.0},
        ),
        torch.float32,
    ),
    # Stored as bfloat16; the reference computes in float32 from those weights.
    "llama_bfloat16": (
        LlamaForCausalLM,
        LlamaConfig(**SIZES, tie_word_embeddings=False),
        torch.bfloat16,
    ),
    "qwen2": (
        Qwen2ForCausalLM,
        Qwen2Config(**SIZES, tie_word_embeddings=True),
        torch.float32,
    ),
    "qwen3": (
        Qwen3ForCausalLM,
        Qwen3Config(
            **SIZES,
            head_dim=12,
            tie_word_embeddings=False,
            rope_parameters={"rope_type": "default", "rope_theta": 1000000.0},
        ),
        torch.float32,
    ),
    "qwen3_tied": (
        Qwen3ForCausalLM,
        Qwen3Config(**SIZES, head_dim=12, tie_word_embeddings=True),
        torch.float32,
    ),
    # The stretched rotary embeddings; bases are small so that each ramp is met.
    "llama3": (
        LlamaForCausalLM,
        LlamaConfig(
            **{**SMALL, "num_key_value_heads": 1},
            head_dim=16,
            rope_parameters=LLAMA3,
        ),
        torch.float32,
    ),
    "llama_linear": (
        LlamaForCausalLM,
        LlamaConfig(
            **SMALL,
            head_dim=8,
            tie_word_embeddings=True,
            rope_parameters={"rope_type": "linear", "factor": 4.0, "rope_theta": 50.0},
        ),
        torch.float32,
    ),
    "qwen2_yarn": (
        Qwen2ForCausalLM,
        Qwen2Config(
            **{**SMALL, "num_attention_heads": 2, "num_key_value_heads": 1},
            tie_word_embeddings=False,
            rope_parameters=YARN,
        ),
        torch.float32,
    ),
    "qwen3_yarn": (
        Qwen3ForCausalLM,
        Qwen3Config(
            **SMALL,
            head_dim=16,
            tie_word_embeddings=True,
            rope_parameters={
                **YARN,
                "truncate": False,
                "beta_fast": 16.0,
                "beta_slow": 2.0,
                "attention_factor": 1.25,
            },
        ),
        torch.float32,
    ),
    "olmo2": (
        Olmo2ForCausalLM,
        Olmo2Config(
            **SMALL,
            tie_word_embeddings=False,
            rms_norm_eps=1e-6,
            rope_parameters={"rope_type": "default", "rope_theta": 500000.0},
        ),
        torch.float32,
    ),
    "olmo2_tied": (
        Olmo2ForCausalLM,
        Olmo2Config(
            **{**SMALL, "num_key_value_heads": 4},
            tie_word_embeddings=True,
            rope_parameters=YARN,
        ),
        torch.float32,
    ),
}
# Written as older versions did: `rope_scaling` beside `rope_theta`.
OLD_FILES = ("llama_linear", "qwen2_yarn")


def write_old(file: pathlib.Path) -> None:
    """Rewrite a config.json as transformers 4 would have."""
    fields = json.loads(file.read_text())
    rope = fields.pop("rope_parameters")
    fields["rope_theta"] = rope.pop("rope_theta")
    fields["rope_scaling"] = {"type": rope.pop("rope_type"), **rope}
    file.write_text(json.dumps(fields, indent=2) + "\n")


def main() -> None:
    chosen = sys.argv[1:] or list(MODELS)
    for seed, (name, (architecture, config, dtype)) in enumerate(MODELS.items()):
        if name not in chosen:
            continue
        torch.manual_seed(seed)
        model = architecture(config).eval()
        with torch.no_grad():
            # Scales of one and biases of zero would hide a mix-up of names.
            for key, parameter in model.named_parameters():
                if "norm" in key:
                    parameter.uniform_(0.5, 1.5)
                if key.endswith("bias"):
                    parameter.normal_(0.0, 0.3)
        shard = "60KB" if name == "qwen3" else "1GB"
        model.to(dtype).save_pretrained(HERE / name, max_shard_size=shard)
        (HERE / name / "generation_config.json").unlink(missing_ok=True)
        if name in OLD_FILES:
            write_old(HERE / name / "config.json")
        # Read back: `to` has rounded the rotary frequencies as well as the weights.
        model = architecture.from_pretrained(HERE / name, dtype=torch.float32).eval()
        tokens = np.random.default_rng(seed).integers(0, config.vocab_size, (2, 23))
        tokens = tokens.astype(np.int32)
        with torch.no_grad():
            logits = model(torch.from_numpy(tokens).long()).logits
        np.savez(HERE / name / "logits.npz", tokens=tokens, logits=logits.numpy())


if __name__ == "__main__":
    main()
