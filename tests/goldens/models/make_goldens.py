"""Write the golden logits: tiny random models of transformers + torch.

Run in an environment with torch and transformers 5 (the project needs neither):

    python tests/goldens/models/make_goldens.py

Each folder gets config.json, model.safetensors and logits.npz (tokens [B, T], float32
logits [B, T, V]). A change of these files means that the reference changed.
"""

import pathlib

import numpy as np
import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
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
}


def main() -> None:
    for seed, (name, (architecture, config, dtype)) in enumerate(MODELS.items()):
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
        # Read back: `to` has rounded the rotary frequencies as well as the weights.
        model = architecture.from_pretrained(HERE / name, dtype=torch.float32).eval()
        tokens = np.random.default_rng(seed).integers(0, 97, (2, 23)).astype(np.int32)
        with torch.no_grad():
            logits = model(torch.from_numpy(tokens).long()).logits
        np.savez(HERE / name / "logits.npz", tokens=tokens, logits=logits.numpy())


if __name__ == "__main__":
    main()
