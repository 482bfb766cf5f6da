"""How a GGUF file's metadata and tensors map to a Hugging Face Llama directory.

Plain dicts and arrays in and out: nothing here reads or writes a file.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

_TOP_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_LAYER_NAMES = {
    "attn_norm.weight": "input_layernorm.weight",
    "attn_q.weight": "self_attn.q_proj.weight",
    "attn_k.weight": "self_attn.k_proj.weight",
    "attn_v.weight": "self_attn.v_proj.weight",
    "attn_output.weight": "self_attn.o_proj.weight",
    "ffn_norm.weight": "post_attention_layernorm.weight",
    "ffn_gate.weight": "mlp.gate_proj.weight",
    "ffn_up.weight": "mlp.up_proj.weight",
    "ffn_down.weight": "mlp.down_proj.weight",
}
# Values of tokenizer.ggml.token_type.
_CONTROL, _USER_DEFINED = 3, 4


def hugging_face_name(name: str) -> str:
    """Hugging Face name of a GGUF tensor of the Llama family.

    Args:
        name: as in the file, for example "blk.3.attn_q.weight".

    Returns:
        For example "model.layers.3.self_attn.q_proj.weight".

    Raises:
        ValueError: a name that a plain Llama model does not have.
    """
    if name in _TOP_NAMES:
        return _TOP_NAMES[name]
    block, _, rest = name.partition(".")
    layer, _, tail = rest.partition(".")
    if block != "blk" or not layer.isdigit() or tail not in _LAYER_NAMES:
        raise ValueError(
            f"GGUF tensor {name!r} is not part of a plain Llama model; only Llama"
            " models without biases, experts or scaled RoPE can be converted"
        )
    return f"model.layers.{int(layer)}.{_LAYER_NAMES[tail]}"


def unpermute_rows(weight: np.ndarray, *, num_heads: int) -> np.ndarray:
    """Undo the row order that GGUF gives the query and key projections.

    GGUF files of the Llama family rotate neighbours (rows 2i and 2i + 1 of a head);
    Hugging Face models rotate halves (rows i and i + D/2). The file's rows are
    interleaved halves, so each head's rows are dealt back into two halves.

    Args:
        weight: [num_heads * D, inputs] in the file's order, D even.
        num_heads: query heads for q, key-value heads for k.

    Returns:
        The same rows in the order of Hugging Face, contiguous.

    Raises:
        ValueError: the rows do not split into heads of even size.
    """
    rows, inputs = weight.shape
    if rows % (2 * num_heads):
        raise ValueError(
            f"weight has {rows} rows; wanted a multiple of 2 * num_heads ="
            f" {2 * num_heads}: check the head counts in the file"
        )
    pairs = weight.reshape(num_heads, rows // num_heads // 2, 2, inputs)
    return np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(rows, inputs))


def llama_config(metadata: Mapping[str, Any], *, tied: bool) -> dict[str, Any]:
    """Contents of config.json from a GGUF file's metadata.

    Args:
        metadata: keys and plain Python values of the file.
        tied: the head is the embedding (the file has no output.weight).

    Returns:
        A dict for `LlamaForCausalLM`. `rope_theta` stands at the top level, where
        every version of transformers finds it.

    Raises:
        ValueError: another architecture, a missing key, or scaled RoPE.
    """
    architecture = metadata.get("general.architecture")
    if architecture != "llama":
        raise ValueError(
            f"general.architecture is {architecture!r}; only 'llama' can be converted"
        )
    scaling = metadata.get("llama.rope.scaling.type", "none")
    if scaling != "none":
        raise ValueError(
            f"llama.rope.scaling.type is {scaling!r}; only models without RoPE"
            " scaling can be converted"
        )
    hidden = _required(metadata, "llama.embedding_length")
    heads = _required(metadata, "llama.attention.head_count")
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": len(_required(metadata, "tokenizer.ggml.tokens")),
        "hidden_size": hidden,
        "intermediate_size": _required(metadata, "llama.feed_forward_length"),
        "num_hidden_layers": _required(metadata, "llama.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": metadata.get("llama.attention.head_count_kv", heads),
        "head_dim": metadata.get("llama.attention.key_length", hidden // heads),
        "max_position_embeddings": _required(metadata, "llama.context_length"),
        "rms_norm_eps": _shortest(
            _required(metadata, "llama.attention.layer_norm_rms_epsilon")
        ),
        "rope_theta": _shortest(metadata.get("llama.rope.freq_base", 10000.0)),
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "attention_dropout": 0.0,
        "tie_word_embeddings": tied,
        "dtype": "float32",
        **_special_ids(metadata),
    }


def generation_config(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Contents of generation_config.json: where a response starts, ends and pads.

    `eos_token_id` is one id, or a list when the file also names an end of turn.
    """
    return _special_ids(metadata)


def tokenizer_config(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Contents of tokenizer_config.json: special tokens and the chat template."""
    tokens = metadata["tokenizer.ggml.tokens"]
    config = {
        # The generic class takes tokenizer.json as it is. A model's own class
        # (GPT2Tokenizer) would put its own pre-tokenizer in place of ours.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": _required(metadata, "llama.context_length"),
        "clean_up_tokenization_spaces": False,
    }
    for field, key in (
        ("bos_token", "bos_token_id"),
        ("eos_token", "eos_token_id"),
        ("unk_token", "unknown_token_id"),
        ("pad_token", "padding_token_id"),
    ):
        token_id = metadata.get(f"tokenizer.ggml.{key}")
        if token_id is not None:
            config[field] = tokens[token_id]
    if "tokenizer.chat_template" in metadata:
        config["chat_template"] = metadata["tokenizer.chat_template"]
    return config


def tokenizer_json(metadata: Mapping[str, Any]) -> str:
    """Contents of tokenizer.json: byte-level BPE with one token per digit.

    A byte without a token of its own (SmolLM2 lacks a few control characters) is
    dropped from the text, as there is no unknown token inside the BPE.

    Args:
        metadata: with tokenizer.ggml.model "gpt2", .pre "smollm", .tokens, .merges
            ("left right" each, best first) and .token_type.

    Returns:
        JSON that the `tokenizers` library and transformers load.

    Raises:
        ValueError: another kind of tokenizer: a wrong split would still give ids,
            only other ones than the model was trained on.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    for key, wanted in (
        ("model", "gpt2"),
        ("pre", "smollm"),
        ("add_bos_token", False),
        ("add_space_prefix", False),
    ):
        found = metadata.get(f"tokenizer.ggml.{key}", False)
        if found != wanted:
            raise ValueError(
                f"tokenizer.ggml.{key} is {found!r}; only {wanted!r} can be converted"
            )
    tokens = _required(metadata, "tokenizer.ggml.tokens")
    kinds = _required(metadata, "tokenizer.ggml.token_type")
    merges = [
        tuple(merge.split(" ", 1))
        for merge in _required(metadata, "tokenizer.ggml.merges")
    ]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    for kind, special in ((_CONTROL, True), (_USER_DEFINED, False)):
        tokenizer.add_tokens(
            [
                AddedToken(token, special=special, normalized=False)
                for token, its_kind in zip(tokens, kinds, strict=True)
                if its_kind == kind
            ]
        )
    return tokenizer.to_str(pretty=False)


def hugging_face_tensors(
    tensors: Iterable[tuple[str, np.ndarray]], metadata: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """Rename and reorder all weights of a Llama model.

    Args:
        tensors: (GGUF name, float array [outputs, inputs] or [width]), any order.
        metadata: of the same file.

    Returns:
        Hugging Face name -> float32 array.

    Raises:
        ValueError: a tensor is unknown, missing, or does not fit the vocabulary.
    """
    heads = _required(metadata, "llama.attention.head_count")
    key_heads = metadata.get("llama.attention.head_count_kv", heads)
    result = {}
    for name, weight in tensors:
        weight = np.ascontiguousarray(weight, dtype=np.float32)
        if name.endswith(".attn_q.weight"):
            weight = unpermute_rows(weight, num_heads=heads)
        elif name.endswith(".attn_k.weight"):
            weight = unpermute_rows(weight, num_heads=key_heads)
        result[hugging_face_name(name)] = weight
    layers = range(_required(metadata, "llama.block_count"))
    wanted = {
        f"model.layers.{i}.{name}" for i in layers for name in _LAYER_NAMES.values()
    }
    wanted |= set(_TOP_NAMES.values())
    # A file without a head of its own uses the embedding.
    missing = wanted - {"lm_head.weight"} - set(result)
    surplus = set(result) - wanted
    if missing or surplus:
        raise ValueError(
            f"the file's tensors do not match llama.block_count = {len(layers)}:"
            f" missing {sorted(missing)[:3]}, surplus {sorted(surplus)[:3]}; the file"
            " is damaged or is only one part of several"
        )
    rows = result["model.embed_tokens.weight"].shape[0]
    if rows != len(metadata["tokenizer.ggml.tokens"]):
        raise ValueError(
            f"token_embd.weight has {rows} rows for"
            f" {len(metadata['tokenizer.ggml.tokens'])} tokens; wanted one row each"
        )
    return result


def _required(metadata, key):
    if key not in metadata:
        raise ValueError(f"the GGUF file has no {key!r}, which a Llama model needs")
    return metadata[key]


def _shortest(value):
    """The shortest decimal of a float32: 9.999999747e-06 was written as 1e-05."""
    return float(str(np.float32(value)))


def _special_ids(metadata):
    ids = {
        "bos_token_id": metadata.get("tokenizer.ggml.bos_token_id"),
        "pad_token_id": metadata.get("tokenizer.ggml.padding_token_id"),
    }
    ends = []
    for key in ("eos", "eot", "eom"):
        token_id = metadata.get(f"tokenizer.ggml.{key}_token_id")
        if token_id is not None and token_id not in ends:
            ends.append(token_id)
    if ends:
        ids["eos_token_id"] = ends[0] if len(ends) == 1 else ends
    return {key: value for key, value in ids.items() if value is not None}
