"""GGUF conversion on a synthetic two-layer model; the `gguf` package is not needed."""

import hashlib
import json
import subprocess
import sys
import types

import numpy as np
import pytest
import tokenizers
import transformers
from safetensors.numpy import load_file

from rlvr_jax.models import gguf, gguf_mapping

HEADS, KEY_HEADS, HEAD_DIM, WIDTH, HIDDEN = 4, 2, 6, 24, 10
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = ["h e", "l l", "he ll", "hell o", "Ġ hello", "1 2", "Ġ 1"]
TOKENS = [
    *SPECIAL,
    *sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()),
    *(merge.replace(" ", "") for merge in MERGES),
    "<tool>",
]
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m['content'] }}<|im_end|>{% endfor %}"


def metadata(**changes):
    """Metadata as a file has it; a change of None removes the key."""
    kinds = [3] * len(SPECIAL) + [1] * (len(TOKENS) - len(SPECIAL) - 1) + [4]
    values = {
        "general.architecture": "llama",
        "llama.block_count": 2,
        "llama.context_length": 64,
        "llama.embedding_length": WIDTH,
        "llama.feed_forward_length": HIDDEN,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KEY_HEADS,
        "llama.attention.layer_norm_rms_epsilon": 9.999999747378752e-06,
        "llama.rope.freq_base": 100000.0,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.ggml.tokens": TOKENS,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.merges": MERGES,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.padding_token_id": 2,
        "tokenizer.chat_template": TEMPLATE,
    } | changes
    return {key: value for key, value in values.items() if value is not None}


def tensors(seed=0):
    """One array per GGUF tensor of the model, in the file's row order."""
    rng = np.random.default_rng(seed)
    layer = {
        "attn_norm": (WIDTH,),
        "attn_q": (HEADS * HEAD_DIM, WIDTH),
        "attn_k": (KEY_HEADS * HEAD_DIM, WIDTH),
        "attn_v": (KEY_HEADS * HEAD_DIM, WIDTH),
        "attn_output": (WIDTH, HEADS * HEAD_DIM),
        "ffn_norm": (WIDTH,),
        "ffn_gate": (HIDDEN, WIDTH),
        "ffn_up": (HIDDEN, WIDTH),
        "ffn_down": (WIDTH, HIDDEN),
    }
    shapes = {"token_embd.weight": (len(TOKENS), WIDTH), "output_norm.weight": (WIDTH,)}
    for index in range(2):
        shapes |= {f"blk.{index}.{name}.weight": s for name, s in layer.items()}
    return {
        name: rng.standard_normal(shape).astype(np.float32)
        for name, shape in shapes.items()
    }


def rotate(heads, position, partner):
    """RoPE of [H, D] where pair i is (first, second) = partner(i)."""
    result = heads.copy()
    for i in range(HEAD_DIM // 2):
        angle = position * 100.0 ** (-2 * i / HEAD_DIM)
        a, b = partner(i)
        result[:, a] = heads[:, a] * np.cos(angle) - heads[:, b] * np.sin(angle)
        result[:, b] = heads[:, a] * np.sin(angle) + heads[:, b] * np.cos(angle)
    return result


def test_unpermuted_rows_by_hand():
    rows = np.array(
        [[0.0], [1], [2], [3], [4], [5], [10], [11], [12], [13], [14], [15]]
    )
    result = gguf_mapping.unpermute_rows(rows, num_heads=2)
    assert result[:, 0].tolist() == [0, 2, 4, 1, 3, 5, 10, 12, 14, 11, 13, 15]
    assert result.flags.c_contiguous


def test_rope_on_halves_after_unpermuting_scores_as_rope_on_neighbours_before():
    weights = tensors()
    query, key = weights["blk.0.attn_q.weight"], weights["blk.1.attn_q.weight"]
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((2, WIDTH))

    def scores(query, key, partner):
        q = rotate((query @ x).reshape(HEADS, HEAD_DIM), 7, partner)
        k = rotate((key @ y).reshape(HEADS, HEAD_DIM), 3, partner)
        return (q * k).sum(-1)

    expected = scores(query, key, lambda i: (2 * i, 2 * i + 1))
    found = scores(
        gguf_mapping.unpermute_rows(query, num_heads=HEADS),
        gguf_mapping.unpermute_rows(key, num_heads=HEADS),
        lambda i: (i, i + HEAD_DIM // 2),
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_unpermute_refuses_rows_that_are_not_heads():
    with pytest.raises(ValueError, match=r"10 rows; wanted a multiple of .* 8"):
        gguf_mapping.unpermute_rows(np.zeros((10, 3)), num_heads=4)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("token_embd.weight", "model.embed_tokens.weight"),
        ("output_norm.weight", "model.norm.weight"),
        ("output.weight", "lm_head.weight"),
        ("blk.0.attn_norm.weight", "model.layers.0.input_layernorm.weight"),
        ("blk.12.attn_output.weight", "model.layers.12.self_attn.o_proj.weight"),
        ("blk.3.ffn_norm.weight", "model.layers.3.post_attention_layernorm.weight"),
        ("blk.3.ffn_down.weight", "model.layers.3.mlp.down_proj.weight"),
    ],
)
def test_names(name, expected):
    assert gguf_mapping.hugging_face_name(name) == expected


@pytest.mark.parametrize(
    "name", ["rope_freqs.weight", "blk.0.attn_q.bias", "blk.x.attn_q.weight", "blk.0"]
)
def test_unknown_names_are_refused(name):
    with pytest.raises(ValueError, match="not part of a plain Llama model"):
        gguf_mapping.hugging_face_name(name)


def test_tensors_are_renamed_and_only_queries_and_keys_reordered():
    source = tensors()
    result = gguf_mapping.hugging_face_tensors(source.items(), metadata())
    assert len(result) == len(source)
    prefix = "model.layers.1.self_attn."
    np.testing.assert_array_equal(
        result[prefix + "q_proj.weight"],
        gguf_mapping.unpermute_rows(source["blk.1.attn_q.weight"], num_heads=HEADS),
    )
    np.testing.assert_array_equal(
        result[prefix + "k_proj.weight"],
        gguf_mapping.unpermute_rows(source["blk.1.attn_k.weight"], num_heads=KEY_HEADS),
    )
    np.testing.assert_array_equal(
        result[prefix + "v_proj.weight"], source["blk.1.attn_v.weight"]
    )
    assert {array.dtype for array in result.values()} == {np.dtype("float32")}


def test_missing_surplus_and_misfitting_tensors_are_refused():
    source = tensors()
    fewer = {k: v for k, v in source.items() if k != "blk.1.ffn_up.weight"}
    with pytest.raises(ValueError, match=r"missing \['model.layers.1.mlp.up_proj"):
        gguf_mapping.hugging_face_tensors(fewer.items(), metadata())
    more = source | {"blk.2.ffn_up.weight": source["blk.1.ffn_up.weight"]}
    with pytest.raises(ValueError, match=r"surplus \['model.layers.2.mlp.up_proj"):
        gguf_mapping.hugging_face_tensors(more.items(), metadata())
    short = source | {"token_embd.weight": np.zeros((5, WIDTH))}
    with pytest.raises(ValueError, match=f"5 rows for {len(TOKENS)} tokens"):
        gguf_mapping.hugging_face_tensors(short.items(), metadata())


def test_config():
    config = gguf_mapping.llama_config(metadata(), tied=True)
    assert config == {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": len(TOKENS),
        "hidden_size": WIDTH,
        "intermediate_size": HIDDEN,
        "num_hidden_layers": 2,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KEY_HEADS,
        "head_dim": HEAD_DIM,
        "max_position_embeddings": 64,
        "rms_norm_eps": 1e-05,
        "rope_theta": 100000.0,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "attention_dropout": 0.0,
        "tie_word_embeddings": True,
        "dtype": "float32",
        "bos_token_id": 1,
        "pad_token_id": 2,
        "eos_token_id": 2,
    }


def test_defaults_of_optional_keys():
    changes = {
        "llama.attention.head_count_kv": None,
        "llama.rope.freq_base": None,
        "llama.attention.key_length": 8,
    }
    config = gguf_mapping.llama_config(metadata(**changes), tied=False)
    assert config["num_key_value_heads"] == HEADS
    assert config["rope_theta"] == 10000.0
    assert config["head_dim"] == 8
    assert config["tie_word_embeddings"] is False


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"general.architecture": "qwen2"}, "'qwen2'; only 'llama'"),
        ({"llama.rope.scaling.type": "yarn"}, "scaling.type is 'yarn'"),
        ({"llama.block_count": None}, "no 'llama.block_count'"),
    ],
)
def test_config_refuses(changes, message):
    with pytest.raises(ValueError, match=message):
        gguf_mapping.llama_config(metadata(**changes), tied=True)


def test_several_ends_of_a_turn():
    changes = {"tokenizer.ggml.eot_token_id": 0, "tokenizer.ggml.eom_token_id": 2}
    assert gguf_mapping.generation_config(metadata(**changes))["eos_token_id"] == [2, 0]


def test_tokenizer_splits_digits_and_keeps_every_byte():
    tokenizer = tokenizers.Tokenizer.from_str(gguf_mapping.tokenizer_json(metadata()))
    assert tokenizer.get_vocab_size() == len(TOKENS)
    # "1 2" and "Ġ 1" are merges, but digits never merge with a neighbour.
    assert tokenizer.encode("hello hello 12").tokens == [
        *("hello", "Ġhello", "Ġ", "1", "2"),
    ]
    assert tokenizer.encode("<|im_start|>hello<tool>").ids == [
        *(1, TOKENS.index("hello"), TOKENS.index("<tool>")),
    ]
    for text in ("naïve 東京 🚀", "a\r\n\t  b = 3.14\n", " lead", "x\u200by ½ ٣٤"):
        assert tokenizer.decode(tokenizer.encode(text).ids) == text
    ids = tokenizer.encode("<|im_end|><tool>").ids
    assert tokenizer.decode(ids, skip_special_tokens=True) == "<tool>"


@pytest.mark.parametrize(
    ("key", "value"),
    [("model", "llama"), ("pre", "qwen2"), ("add_bos_token", True)],
)
def test_other_tokenizers_are_refused(key, value):
    with pytest.raises(ValueError, match=rf"tokenizer.ggml.{key} is {value!r}; only"):
        gguf_mapping.tokenizer_json(metadata(**{f"tokenizer.ggml.{key}": value}))


def test_written_directory_loads_in_transformers(tmp_path):
    target = tmp_path / "new" / "model"
    gguf.write_directory(metadata(), tensors().items(), target)
    assert sorted(path.name for path in target.iterdir()) == sorted(gguf.OUTPUT_FILES)
    assert [path.name for path in target.parent.iterdir()] == ["model"]
    assert len({path.stat().st_mode for path in target.iterdir()}) == 1
    tokenizer = transformers.AutoTokenizer.from_pretrained(target)
    text = "hello 12<|im_end|>"
    assert tokenizer.convert_ids_to_tokens(tokenizer(text).input_ids) == [
        *("hello", "Ġ", "1", "2", "<|im_end|>"),
    ]
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id) == (1, 2)
    assert (tokenizer.pad_token_id, tokenizer.unk_token_id) == (2, 0)
    assert tokenizer.chat_template == TEMPLATE
    config = transformers.AutoConfig.from_pretrained(target)
    assert config.rope_parameters["rope_theta"] == 100000.0
    weights = load_file(target / "model.safetensors")
    assert set(weights) == set(
        gguf_mapping.hugging_face_tensors(tensors().items(), metadata())
    )


def test_head_in_the_file_unties(tmp_path):
    source = tensors()
    source["output.weight"] = source["token_embd.weight"] + 1
    gguf.write_directory(metadata(), source.items(), tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert config["tie_word_embeddings"] is False
    weights = load_file(tmp_path / "model" / "model.safetensors")
    np.testing.assert_array_equal(weights["lm_head.weight"], source["output.weight"])


def test_nothing_is_left_when_writing_fails(tmp_path, monkeypatch):
    def full_disk(*_, **__):
        raise OSError("no space left")

    monkeypatch.setattr(gguf, "save_file", full_disk)
    with pytest.raises(OSError, match="no space left"):
        gguf.write_directory(metadata(), tensors().items(), tmp_path / "model")
    assert not any(tmp_path.iterdir())


def test_a_folder_with_other_files_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="not empty; wanted a new or empty"):
        gguf.write_directory(metadata(), tensors().items(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def fake_package(source, values):
    """Stands in for the gguf package: tensors with the file's reversed shapes."""

    class Reader:
        def __init__(self, path):
            self.fields = {
                key: types.SimpleNamespace(contents=lambda value=value: value)
                for key, value in values.items()
            }
            self.tensors = [
                types.SimpleNamespace(
                    name=name,
                    tensor_type=3,
                    data=array.ravel(),
                    shape=np.array(array.shape[::-1], np.uint64),
                )
                for name, array in source.items()
            ]

    def dequantize(data, kind):
        assert kind == 3
        return data * 2

    return types.SimpleNamespace(GGUFReader=Reader, dequantize=dequantize)


def test_convert_reads_dequantised_tensors_then_returns_at_once(tmp_path, monkeypatch):
    source = tensors()
    monkeypatch.setitem(sys.modules, "gguf", fake_package(source, metadata()))
    gguf.convert(tmp_path / "absent.gguf", tmp_path / "model")
    weights = load_file(tmp_path / "model" / "model.safetensors")
    np.testing.assert_array_equal(
        weights["model.layers.0.mlp.down_proj.weight"],
        2 * source["blk.0.ffn_down.weight"],
    )
    monkeypatch.setitem(sys.modules, "gguf", None)
    gguf.convert(tmp_path / "absent.gguf", tmp_path / "model")


def test_command_names_the_missing_extra(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "gguf", None)
    assert gguf.main([str(tmp_path / "a.gguf"), str(tmp_path / "model")]) == 2
    message = capsys.readouterr().err
    assert "pip install rlvr_jax[gguf]" in message
    assert message.count("\n") == 1


def test_command_checks_the_digest_first(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "gguf", fake_package(tensors(), metadata()))
    file = tmp_path / "a.gguf"
    file.write_bytes(b"anything")
    target = tmp_path / "model"
    arguments = [str(file), str(target)]
    assert gguf.main([*arguments, f"--sha256={'0' * 64}"]) == 2
    assert f"wanted {'0' * 64}" in capsys.readouterr().err
    assert not target.exists()
    digest = hashlib.sha256(b"anything").hexdigest()
    assert gguf.main([*arguments, f"--sha256={digest}"]) == 0
    assert gguf.is_complete(target)


def test_command_tells_about_an_absent_file(tmp_path):
    command = [sys.executable, "-m", "rlvr_jax.models.gguf"]
    done = subprocess.run(
        [*command, str(tmp_path / "no.gguf"), str(tmp_path / "model"), "--sha256=00"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: ") and "no.gguf" in done.stderr
