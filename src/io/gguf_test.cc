#include "io/gguf.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "io/gguf_model.h"
#include "support/expect_error.h"
#include "support/tiny_gguf.h"

namespace haast::io {
namespace {

using testing::GgufWriter;
using testing::LittleEndian;
using testing::SmallestLlama;

constexpr char kPath[] = "model.gguf";

// Reads from a copy of exactly that size, so that a sanitizer sees every read beyond the end.
Result<GgufModel> Read(const std::string& bytes) {
  const std::vector<uint8_t> copy(bytes.begin(), bytes.end());
  HAAST_ASSIGN_OR_RETURN(GgufFile file, ReadGguf(copy, kPath));
  return Interpret(&file);
}

struct CorruptCase {
  const char* what;
  std::function<void(GgufWriter&)> change;
  ErrorCode code;
  std::vector<std::string> parts;  // of the message, besides the path
};

void PrintTo(const CorruptCase& test, std::ostream* out) { *out << test.what; }

class CorruptGguf : public ::testing::TestWithParam<CorruptCase> {};

TEST_P(CorruptGguf, IsRefusedByName) {
  GgufWriter writer = MakeTinyGguf(SmallestLlama());
  ASSERT_TRUE(Read(writer.Bytes()));
  GetParam().change(writer);
  const auto result = Read(writer.Bytes());
  EXPECT_ERROR(result, GetParam().code, kPath);
  for (const std::string& part : GetParam().parts) EXPECT_ERROR(result, GetParam().code, part);
}

constexpr auto kInvalid = ErrorCode::kInvalidFile;
constexpr auto kUnsupported = ErrorCode::kUnsupported;

// Replaces a key.
template <typename Add>
auto Instead(const char* key, Add add) {
  return [=](GgufWriter& writer) {
    ASSERT_TRUE(writer.Remove(key));
    add(writer);
  };
}

auto SetU32(const char* key, uint32_t value) {
  return Instead(key, [=](GgufWriter& writer) { writer.U32(key, value); });
}

std::string ArrayHeader(uint32_t element, uint64_t count) { return LittleEndian(element) + LittleEndian(count); }

const CorruptCase kContainer[] = {
    {"magic", [](GgufWriter& w) { w.magic = 0x46554748; }, kInvalid, {"begins with \"GGUF\""}},
    {"version 1", [](GgufWriter& w) { w.version = 1; }, kUnsupported, {"version 2 or 3, got 1"}},
    {"version 4", [](GgufWriter& w) { w.version = 4; }, kUnsupported, {"version 2 or 3, got 4"}},
    {"big-endian", [](GgufWriter& w) { w.version = 3u << 24; }, kUnsupported, {"big-endian"}},
    {"tensor count", [](GgufWriter& w) { w.tensor_count = INT64_MAX; }, kInvalid, {"9223372036854775807 tensors"}},
    {"key count", [](GgufWriter& w) { w.value_count = INT64_MAX; }, kInvalid, {"9223372036854775807 keys"}},
    {"a tensor too many", [](GgufWriter& w) { w.tensor_count = static_cast<int64_t>(w.tensors().size()) + 1; }, kInvalid, {}},
    {"key twice", [](GgufWriter& w) { w.U32("llama.block_count", 1); }, kInvalid, {"two of llama.block_count"}},
    {"empty key", [](GgufWriter& w) { w.U32("", 1); }, kInvalid, {"name", "printable"}},
    {"long key", [](GgufWriter& w) { w.Raw(std::string(60000, 'k').c_str(), 13, "...."); }, kInvalid, {"kkk…: expected a value type"}},
    {"unprintable key", [](GgufWriter& w) { w.U32("a\nb", 1); }, kInvalid, {"name", "printable"}},
    {"value type", [](GgufWriter& w) { w.Raw("x", 13, "...."); }, kInvalid, {"key x", "got 13"}},
    {"element type", [](GgufWriter& w) { w.Raw("x", 9, ArrayHeader(99, 1)); }, kInvalid, {"key x", "got 99"}},
    {"string length", [](GgufWriter& w) { w.Raw("x", 8, LittleEndian(UINT64_MAX)); }, kInvalid, {"cut short"}},
    {"array length", [](GgufWriter& w) { w.Raw("x", 9, ArrayHeader(6, uint64_t{1} << 62)); }, kInvalid, {"key x", "4611686018427387904"}},
    {"strings length", [](GgufWriter& w) { w.Raw("x", 9, ArrayHeader(8, uint64_t{1} << 61)); }, kInvalid, {"key x", "2305843009213693952"}},
    {"nested arrays",
     [](GgufWriter& w) {
       w.Raw("x", 9, ArrayHeader(9, 1) + ArrayHeader(9, 1) + ArrayHeader(9, 1) + ArrayHeader(9, 1) + ArrayHeader(0, 0));
     },
     kUnsupported,
     {"key x", "nested"}},
    {"alignment 0", [](GgufWriter& w) { w.U32("general.alignment", 0); }, kInvalid, {"general.alignment", "got uint32 0"}},
    {"alignment 12", [](GgufWriter& w) { w.U32("general.alignment", 12); }, kInvalid, {"general.alignment", "multiple of 8"}},
    {"alignment text", [](GgufWriter& w) { w.String("general.alignment", "32"); }, kInvalid, {"general.alignment", "a string"}},
};
INSTANTIATE_TEST_SUITE_P(Container, CorruptGguf, ::testing::ValuesIn(kContainer));

const CorruptCase kTensors[] = {
    {"type unknown", [](GgufWriter& w) { w.tensors()[1].type = 77; }, kUnsupported, {"blk.0.attn_q.weight", "type 77"}},
    {"type not served", [](GgufWriter& w) { w.tensors()[1].type = 10; }, kUnsupported, {"blk.0.attn_q.weight", "Q2_K"}},
    {"no dimensions", [](GgufWriter& w) { w.tensors()[1].dims = {}; }, kUnsupported, {"blk.0.attn_q.weight", "got 0"}},
    {"five dimensions", [](GgufWriter& w) { w.tensors()[1].dims = {8, 8, 1, 1, 1}; }, kUnsupported, {"blk.0.attn_q.weight", "got 5"}},
    {"zero dimension", [](GgufWriter& w) { w.tensors()[1].dims = {8, 0}; }, kInvalid, {"blk.0.attn_q.weight", "[0, 8]"}},
    {"huge dimension", [](GgufWriter& w) { w.tensors()[1].dims = {UINT64_MAX, 8}; }, kInvalid, {"blk.0.attn_q.weight", "above zero"}},
    {"product overflows", [](GgufWriter& w) { w.tensors()[1].dims = {uint64_t{1} << 32, uint64_t{1} << 32}; }, kInvalid, {"2^56"}},
    {"product wraps", [](GgufWriter& w) { w.tensors()[1].dims = {uint64_t{1} << 62, 4}; }, kInvalid, {"2^56"}},
    {"too large", [](GgufWriter& w) { w.tensors()[1].dims = {8, 1 << 20}; }, kInvalid, {"blk.0.attn_q.weight", "33554432 bytes"}},
    {"offset outside", [](GgufWriter& w) { w.tensors()[1].offset = 1 << 20; }, kInvalid, {"blk.0.attn_q.weight", "1048576"}},
    {"offset near 2^63", [](GgufWriter& w) { w.tensors()[1].offset = INT64_MAX - 31; }, kInvalid, {"blk.0.attn_q.weight"}},
    {"offset unaligned", [](GgufWriter& w) { w.tensors()[1].offset = 33; }, kInvalid, {"blk.0.attn_q.weight", "multiple of 32"}},
    {"overlap", [](GgufWriter& w) { w.tensors()[1].offset = 32; }, kInvalid, {"overlap", "token_embd.weight", "blk.0.attn_q.weight"}},
    {"name twice", [](GgufWriter& w) { w.tensors()[2].name = w.tensors()[1].name; }, kInvalid, {"two of blk.0.attn_q.weight"}},
    {"name unprintable", [](GgufWriter& w) { w.tensors()[2].name = "\x80"; }, kInvalid, {"printable"}},
    {"rows and blocks", [](GgufWriter& w) { w.tensors()[1].type = testing::kGgmlQ4_0; }, kInvalid, {"multiple of 32", "Q4_0"}},
    {"no embedding", [](GgufWriter& w) { w.tensors()[0].name = "other.weight"; }, kInvalid, {"token_embd.weight"}},
    {"embedding width", [](GgufWriter& w) { w.tensors()[0].dims = {16, 8}; }, kInvalid, {"token_embd.weight", "[vocabulary, 8]"}},
    {"embedding rank", [](GgufWriter& w) { w.tensors()[0].dims = {128}; }, kInvalid, {"token_embd.weight"}},
};
INSTANTIATE_TEST_SUITE_P(Tensors, CorruptGguf, ::testing::ValuesIn(kTensors));

const CorruptCase kSettings[] = {
    {"architecture",
     Instead("general.architecture", [](GgufWriter& w) { w.String("general.architecture", "qwen2moe"); }),
     kUnsupported,
     {"expected llama", "qwen2moe"}},
    {"no architecture", Instead("general.architecture", [](GgufWriter&) {}), kUnsupported, {"expected llama"}},
    {"architecture number",
     Instead("general.architecture", [](GgufWriter& w) { w.U32("general.architecture", 1); }),
     kInvalid,
     {"general.architecture", "a string"}},
    {"window",
     [](GgufWriter& w) { w.U32("llama.attention.sliding_window", 1); },
     kUnsupported,
     {"llama.attention.sliding_window", "full attention", "got 1"}},
    {"experts", [](GgufWriter& w) { w.U32("llama.expert_count", 8); }, kUnsupported, {"llama.expert_count", "got 8"}},
    {"no layers", Instead("llama.block_count", [](GgufWriter&) {}), kInvalid, {"llama.block_count", "no such key"}},
    {"layers zero", SetU32("llama.block_count", 0), kInvalid, {"llama.block_count", "got uint32 0"}},
    {"layers huge", SetU32("llama.block_count", UINT32_MAX), kInvalid, {"llama.block_count", "4294967295"}},
    {"hidden zero", SetU32("llama.embedding_length", 0), kInvalid, {"llama.embedding_length"}},
    {"hidden other", SetU32("llama.embedding_length", 16), kInvalid, {"token_embd.weight", "[vocabulary, 16]"}},
    {"hidden 2^64",
     Instead("llama.embedding_length", [](GgufWriter& w) { w.U64("llama.embedding_length", UINT64_MAX); }),
     kInvalid,
     {"llama.embedding_length"}},
    {"hidden float",
     Instead("llama.embedding_length", [](GgufWriter& w) { w.F32("llama.embedding_length", 8); }),
     kInvalid,
     {"llama.embedding_length", "float32"}},
    {"hidden negative",
     Instead("llama.embedding_length", [](GgufWriter& w) { w.I32("llama.embedding_length", -8); }),
     kInvalid,
     {"int32 -8"}},
    {"heads zero", SetU32("llama.attention.head_count", 0), kInvalid, {"llama.attention.head_count"}},
    {"heads by layer differ",
     Instead("llama.attention.head_count", [](GgufWriter& w) { w.Ints("llama.attention.head_count", {2, 1}); }),
     kInvalid,
     {"llama.attention.head_count"}},
    {"kv heads zero", SetU32("llama.attention.head_count_kv", 0), kInvalid, {"llama.attention.head_count_kv"}},
    {"kv heads no divisor", SetU32("llama.attention.head_count_kv", 3), kInvalid, {"multiple of the 3 kv heads", "got 2"}},
    {"head_dim odd",
     [](GgufWriter& w) {
       for (const char* key : {"llama.attention.key_length", "llama.attention.value_length", "llama.rope.dimension_count"})
         SetU32(key, 3)(w);
     },
     kInvalid,
     {"head_dim", "even", "got 3"}},
    {"rope of a part", SetU32("llama.rope.dimension_count", 2), kUnsupported, {"llama.rope.dimension_count", "head_dim 4", "got 2"}},
    {"value length", SetU32("llama.attention.value_length", 8), kUnsupported, {"llama.attention.value_length"}},
    {"rope base zero",
     Instead("llama.rope.freq_base", [](GgufWriter& w) { w.F32("llama.rope.freq_base", 0); }),
     kInvalid,
     {"llama.rope.freq_base", "above 0", "got 0"}},
    {"rope base text",
     Instead("llama.rope.freq_base", [](GgufWriter& w) { w.String("llama.rope.freq_base", "1"); }),
     kInvalid,
     {"llama.rope.freq_base", "a number"}},
    {"rope scaling", [](GgufWriter& w) { w.String("llama.rope.scaling.type", "yarn"); }, kUnsupported, {"llama.rope.scaling.type", "yarn"}},
    {"rope factor",
     [](GgufWriter& w) {
       w.String("llama.rope.scaling.type", "linear");
       w.F32("llama.rope.scaling.factor", -1);
     },
     kInvalid,
     {"factor", "-1"}},
    {"eps",
     Instead("llama.attention.layer_norm_rms_epsilon", [](GgufWriter& w) { w.F32("llama.attention.layer_norm_rms_epsilon", NAN); }),
     kInvalid,
     {"rms_epsilon", "above 0", "got nan"}},
    {"vocabulary", SetU32("llama.vocab_size", 17), kInvalid, {"llama.vocab_size", "16 rows", "got 17"}},
};
INSTANTIATE_TEST_SUITE_P(Settings, CorruptGguf, ::testing::ValuesIn(kSettings));

void AddTokens(GgufWriter& writer, size_t count) {
  writer.String("tokenizer.ggml.model", "gpt2");
  writer.Strings("tokenizer.ggml.tokens", std::vector<std::string>(count, "a"));
}

const CorruptCase kText[] = {
    {"too many tokens", [](GgufWriter& w) { AddTokens(w, 17); }, kInvalid, {"tokenizer.ggml.tokens", "16 rows", "got 17"}},
    {"eos outside",
     [](GgufWriter& w) {
       AddTokens(w, 16);
       w.U32("tokenizer.ggml.eos_token_id", 16);
     },
     kInvalid,
     {"tokenizer.ggml.eos_token_id", "got 16"}},
    {"bos below -1",
     [](GgufWriter& w) {
       AddTokens(w, 16);
       w.I32("tokenizer.ggml.bos_token_id", -2);
     },
     kInvalid,
     {"tokenizer.ggml.bos_token_id"}},
    {"types short",
     [](GgufWriter& w) {
       AddTokens(w, 16);
       w.Ints("tokenizer.ggml.token_type", {1});
     },
     kInvalid,
     {"token_type", "16 of them"}},
    {"scores long",
     [](GgufWriter& w) {
       AddTokens(w, 2);
       w.Floats("tokenizer.ggml.scores", {1, 2, 3});
     },
     kInvalid,
     {"scores", "2 of them"}},
    {"tokens of numbers",
     [](GgufWriter& w) {
       w.String("tokenizer.ggml.model", "gpt2");
       w.Ints("tokenizer.ggml.tokens", {1});
     },
     kInvalid,
     {"tokenizer.ggml.tokens", "array of string"}},
    {"flag of 2",
     [](GgufWriter& w) {
       AddTokens(w, 2);
       w.Raw("tokenizer.ggml.add_bos_token", 7, "\2");
     },
     kInvalid,
     {"add_bos_token"}},
    {"template number",
     [](GgufWriter& w) {
       AddTokens(w, 2);
       w.U32("tokenizer.chat_template", 1);
     },
     kInvalid,
     {"tokenizer.chat_template"}},
};
INSTANTIATE_TEST_SUITE_P(Text, CorruptGguf, ::testing::ValuesIn(kText));

TEST(Gguf, AFileCutAnywhereIsRefused) {
  const std::string bytes = MakeTinyGguf(SmallestLlama()).Bytes();
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto result = Read(bytes.substr(0, size));
    ASSERT_FALSE(result) << size << " of " << bytes.size() << " bytes";
    ASSERT_NE(result.error().message.find(kPath), std::string::npos) << result.error().message;
  }
}

// Any byte may be anything: the result does not matter, the reads do.
TEST(Gguf, AnyChangedByteIsSurvived) {
  const std::string bytes = MakeTinyGguf(SmallestLlama()).Bytes();
  size_t refused = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const int value : {0x00, 0x7f, 0xff, bytes[i] ^ 0x80, bytes[i] + 1}) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(value);
      refused += !Read(changed);
    }
  }
  EXPECT_GT(refused, 1000u);
}

TEST(Gguf, SettingsByLayerThatAgreeCount) {
  GgufWriter writer = MakeTinyGguf(SmallestLlama());
  writer.Remove("llama.attention.head_count_kv");
  writer.Ints("llama.attention.head_count_kv", {1, 1, 1});
  const auto model = Read(writer.Bytes());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->config.num_kv_heads, 1);
}

TEST(Gguf, Version2ReadsTheSame) {
  GgufWriter writer = MakeTinyGguf(SmallestLlama());
  writer.version = 2;
  EXPECT_TRUE(Read(writer.Bytes()));
}

TEST(Gguf, OtherAlignments) {
  GgufWriter writer = MakeTinyGguf(SmallestLlama());
  writer.alignment = 64;
  writer.U32("general.alignment", 64);
  const std::string bytes = writer.Bytes();
  const std::vector<uint8_t> copy(bytes.begin(), bytes.end());
  const auto file = ReadGguf(copy, kPath);
  ASSERT_TRUE(file) << file.error().message;
  const auto* first = static_cast<const uint8_t*>(file->tensors[0].view.data);
  EXPECT_EQ((first - copy.data()) % 64, 0);
  EXPECT_EQ(std::string(first, first + writer.tensors()[0].data.size()), writer.tensors()[0].data);
}

TEST(Gguf, LinearScalingInBothSpellings) {
  GgufWriter writer = MakeTinyGguf(SmallestLlama());
  writer.F32("llama.rope.scale_linear", 4);
  const auto old_key = Read(writer.Bytes());
  ASSERT_TRUE(old_key);
  EXPECT_EQ(old_key->config.rope_scaling.kind, RopeScaling::Kind::kLinear);
  EXPECT_EQ(old_key->config.rope_scaling.factor, 4.0f);
  writer.String("llama.rope.scaling.type", "linear");
  writer.F32("llama.rope.scaling.factor", 2);
  const auto new_key = Read(writer.Bytes());
  ASSERT_TRUE(new_key);
  EXPECT_EQ(new_key->config.rope_scaling.factor, 2.0f);
}

// Which ids end an answer: keys first, then tokens known by their text; "none" is not an id.
TEST(Gguf, EndTokens) {
  GgufWriter writer = MakeTinyGguf(SmallestLlama());
  writer.String("tokenizer.ggml.model", "gpt2");
  writer.String("tokenizer.ggml.pre", "llama-bpe");
  writer.Strings("tokenizer.ggml.tokens", {"<|endoftext|>", "a", "<|eot_id|>", "b", "</s", "c"});
  writer.U32("tokenizer.ggml.eos_token_id", 3);
  writer.U32("tokenizer.ggml.eot_token_id", 2);
  writer.U32("tokenizer.ggml.padding_token_id", UINT32_MAX);
  const auto without_bos = Read(writer.Bytes());
  ASSERT_TRUE(without_bos) << without_bos.error().message;
  EXPECT_EQ(without_bos->text.eos_ids, (std::vector<int32_t>{3, 2, 0}));
  EXPECT_EQ(without_bos->text.pad_id, -1);
  EXPECT_FALSE(without_bos->text.add_bos);
  writer.U32("tokenizer.ggml.bos_token_id", 1);
  EXPECT_TRUE(Read(writer.Bytes())->text.add_bos);  // this pre-tokenizer's models expect one
  writer.Bool("tokenizer.ggml.add_bos_token", false);
  EXPECT_FALSE(Read(writer.Bytes())->text.add_bos);
}

TEST(Gguf, SentencePieceDefaults) {
  GgufWriter writer = MakeTinyGguf(SmallestLlama());
  writer.String("tokenizer.ggml.model", "llama");
  writer.Strings("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", "a"});
  writer.Floats("tokenizer.ggml.scores", {0, 0, 0, -1});
  const auto model = Read(writer.Bytes());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->text.bos_id, 1);
  EXPECT_EQ(model->text.eos_ids, std::vector<int32_t>{2});
  EXPECT_EQ(model->text.gguf.unknown_id, 0);
  EXPECT_TRUE(model->text.add_bos);
}

TEST(Gguf, NamesAreTranslated) {
  EXPECT_EQ(TranslateName("blk.12.ffn_down.weight"), "model.layers.12.mlp.down_proj.weight");
  EXPECT_EQ(TranslateName("blk.0.attn_q.bias"), "model.layers.0.self_attn.q_proj.bias");
  EXPECT_EQ(TranslateName("output.weight"), "lm_head.weight");
  for (const char* kept :
       {"rope_freqs.weight", "blk.x.ffn_down.weight", "blk..ffn_down.weight", "blk.0.ffn_gate_exps.weight", "blk.", "blk", "", "."}) {
    EXPECT_EQ(TranslateName(kept), kept);
  }
}

}  // namespace
}  // namespace haast::io
