#include "io/model_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/format.h"
#include "support/encode.h"
#include "support/expect_error.h"
#include "support/safetensors_writer.h"
#include "support/tiny_gguf.h"
#include "support/tiny_text.h"

namespace haast::io {
namespace {

using testing::HeadSpelling;
using testing::ReadFile;
using testing::TempDir;
using testing::TinyEagle3;
using testing::TinyLlama;
using testing::TinyTensor;
using testing::WriteFile;

constexpr auto kInvalid = ErrorCode::kInvalidFile;

std::string BytesOf(const TensorView& view) {
  const auto* first = static_cast<const char*>(view.data);
  return std::string(first, first + view.bytes());
}

// Shape and bytes of every tensor are those of the maker, under the same names; nothing else is there.
void ExpectTensors(const ModelFile& file, const std::vector<TinyTensor>& expected, DType dtype, size_t others = 0) {
  EXPECT_EQ(file.tensors().size(), expected.size() + others);
  for (const TinyTensor& tensor : expected) {
    const TensorView* view = file.Find(tensor.name);
    ASSERT_NE(view, nullptr) << tensor.name;
    ASSERT_EQ(static_cast<size_t>(view->rank), tensor.shape.size()) << tensor.name;
    for (size_t i = 0; i < tensor.shape.size(); ++i) EXPECT_EQ(view->shape[i], tensor.shape[i]) << tensor.name;
    EXPECT_EQ(view->dtype, dtype) << tensor.name;
    EXPECT_EQ(BytesOf(*view), testing::Encode(tensor.values, dtype)) << tensor.name;
  }
}

void ExpectConfig(const ModelConfig& config, const TinyLlama& model) {
  EXPECT_EQ(config.architecture, "llama");
  EXPECT_EQ(config.hidden_size, model.hidden);
  EXPECT_EQ(config.intermediate_size, model.intermediate);
  EXPECT_EQ(config.num_layers, model.layers);
  EXPECT_EQ(config.num_heads, model.heads);
  EXPECT_EQ(config.num_kv_heads, model.kv_heads);
  EXPECT_EQ(config.head_dim, model.head_dim);
  EXPECT_EQ(config.vocab_size, model.vocab);
  EXPECT_EQ(config.max_context, model.max_context);
  EXPECT_EQ(config.rope_theta, model.rope_theta);
  EXPECT_EQ(config.rms_norm_eps, model.rms_norm_eps);
  EXPECT_EQ(config.tied_embeddings, model.tied);
  EXPECT_EQ(config.attention_bias, model.attention_bias);
  EXPECT_EQ(config.mlp_bias, model.mlp_bias);
}

TinyLlama Odd() {
  TinyLlama model;
  model.layers = 3;
  model.hidden = 40;
  model.intermediate = 72;
  model.heads = 6;
  model.kv_heads = 3;
  model.head_dim = 10;  // 6 * 10 is not 40
  model.attention_bias = model.output_bias = model.mlp_bias = true;
  model.rope_theta = 50000.0f;
  return model;
}

TEST(ModelFile, FolderRoundTrip) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const int shards : {1, 3}) {
      TempDir dir;
      TinyLlama model = Odd();
      model.dtype = dtype;
      model.shards = shards;
      const auto file = ModelFile::Open(WriteTinyFolder(model, dir.Join("tiny")) + "/");
      ASSERT_TRUE(file) << file.error().message;
      EXPECT_EQ(file->format(), "safetensors");
      EXPECT_EQ(file->config().name, "tiny");
      EXPECT_FALSE(file->config().rope_interleaved);
      ExpectConfig(file->config(), model);
      ExpectTensors(*file, MakeTinyLlama(model), dtype);
      EXPECT_TRUE(file->text().tokenizer_json.empty());
      EXPECT_TRUE(file->text().gguf.tokens.empty());
      EXPECT_EQ(file->Find("model.layers.9.mlp.up_proj.weight"), nullptr);
    }
  }
}

// The GGUF holds the same model: q and k rows of each head are interleaved, all others lie as in the folder.
TEST(ModelFile, GgufRoundTrip) {
  for (const int shards : {1, 4}) {
    TempDir dir;
    TinyLlama model = Odd();
    model.shards = shards;
    const std::string path = WriteTinyGguf(model, dir.Join("tiny.gguf"));
    const auto file = ModelFile::Open(path);
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(file->format(), "GGUF v3");
    EXPECT_EQ(file->path(), path);
    EXPECT_TRUE(file->config().rope_interleaved);
    ExpectConfig(file->config(), model);
    std::vector<TinyTensor> expected = MakeTinyLlama(model);
    for (TinyTensor& tensor : expected) {
      if (tensor.name.find("q_proj") == std::string::npos && tensor.name.find("k_proj") == std::string::npos) continue;
      const std::vector<float> rows = tensor.values;
      const size_t width = tensor.shape.size() == 1 ? 1 : static_cast<size_t>(tensor.shape[1]);
      const size_t half = static_cast<size_t>(model.head_dim) / 2;
      for (size_t head = 0; head < static_cast<size_t>(tensor.shape[0]) / (2 * half); ++head) {
        for (size_t i = 0; i < half; ++i) {
          const size_t base = head * 2 * half;
          std::copy_n(&rows[(base + i) * width], width, &tensor.values[(base + 2 * i) * width]);
          std::copy_n(&rows[(base + i + half) * width], width, &tensor.values[(base + 2 * i + 1) * width]);
        }
      }
    }
    ExpectTensors(*file, expected, DType::kF32);
  }
}

TEST(ModelFile, EveryBlockFormat) {
  for (const DType dtype :
       {DType::kQ4_0, DType::kQ4_1, DType::kQ8_0, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K, DType::kF16, DType::kBF16}) {
    TempDir dir;
    TinyLlama model;
    model.hidden = model.intermediate = 256;
    model.heads = 4;
    model.kv_heads = 2;
    model.head_dim = 64;
    model.layers = 1;
    model.vocab = 32;
    model.dtype = dtype;
    model.embedding_dtype = DType::kQ8_0;
    const auto file = ModelFile::Open(WriteTinyGguf(model, dir.Join("tiny.gguf")));
    ASSERT_TRUE(file) << file.error().message;
    const TensorView* down = file->Find("model.layers.0.mlp.down_proj.weight");
    ASSERT_NE(down, nullptr);
    EXPECT_EQ(down->ToString(), fmt::format("[256, 256] {}", Info(dtype).name));
    EXPECT_EQ(file->Find("lm_head.weight")->dtype, DType::kQ8_0);
    EXPECT_EQ(file->Find("model.norm.weight")->dtype, DType::kF32);
    file->DropPages(*down);  // the pages come back from the file
    const std::vector<TinyTensor> made = MakeTinyLlama(model);
    const auto source =
        std::find_if(made.begin(), made.end(), [](const TinyTensor& t) { return t.name == "model.layers.0.mlp.down_proj.weight"; });
    EXPECT_EQ(BytesOf(*down), testing::Encode(source->values, dtype));
  }
}

TEST(ModelFile, Llama3RopeIsATensorInGgufAndASettingInFolders) {
  TempDir dir;
  TinyLlama model;
  model.llama3_rope = true;
  const auto gguf = ModelFile::Open(WriteTinyGguf(model, dir.Join("tiny.gguf")));
  const auto folder = ModelFile::Open(WriteTinyFolder(model, dir.Join("folder")));
  ASSERT_TRUE(gguf && folder);
  EXPECT_EQ(gguf->config().rope_scaling.kind, RopeScaling::Kind::kNone);
  ASSERT_NE(gguf->Find("rope_freqs.weight"), nullptr);
  EXPECT_EQ(gguf->Find("rope_freqs.weight")->ToString(), "[8] F32");
  EXPECT_EQ(folder->config().rope_scaling.kind, RopeScaling::Kind::kLlama3);
  EXPECT_EQ(folder->config().rope_scaling.original_context, 256);
}

TEST(ModelFile, TextOfBothFormats) {
  TempDir dir;
  TinyLlama model;
  model.vocabulary = true;
  const testing::TinyVocab vocab = testing::MakeTinyVocab(model.vocab);
  const auto gguf = ModelFile::Open(WriteTinyGguf(model, dir.Join("tiny.gguf")));
  ASSERT_TRUE(gguf) << gguf.error().message;
  EXPECT_EQ(gguf->text().source, dir.Join("tiny.gguf"));
  EXPECT_EQ(gguf->text().gguf.tokens, vocab.tokens);
  EXPECT_EQ(gguf->text().gguf.types, vocab.types);
  EXPECT_EQ(gguf->text().gguf.merges, vocab.merges);
  EXPECT_EQ(gguf->text().gguf.model, "gpt2");
  EXPECT_EQ(gguf->text().gguf.pre, "smollm");
  EXPECT_EQ(gguf->text().bos_id, vocab.bos);
  EXPECT_EQ(gguf->text().eos_ids, (std::vector<int32_t>{vocab.eos, vocab.im_end}));
  EXPECT_EQ(gguf->text().chat_template, vocab.chat_template);
  const auto folder = ModelFile::Open(WriteTinyFolder(model, dir.Join("folder")));
  ASSERT_TRUE(folder) << folder.error().message;
  EXPECT_EQ(folder->text().tokenizer_json, testing::TinyTokenizerJson(vocab));
  EXPECT_EQ(folder->text().bos_id, vocab.bos);
  EXPECT_EQ(folder->text().eos_ids, (std::vector<int32_t>{vocab.eos, vocab.im_end}));  // config.json, tokenizer_config.json
  EXPECT_EQ(folder->text().chat_template, vocab.chat_template);
}

TEST(ModelFile, HeadsInThreeSpellings) {
  for (const HeadSpelling spelling : {HeadSpelling::kSafeAiLab, HeadSpelling::kSpecForge, HeadSpelling::kSpeculators}) {
    TempDir dir;
    TinyEagle3 head;
    head.spelling = spelling;
    head.target.layers = 4;
    head.taps = {1, 2, 4};
    head.fc_norm = head.norm_output = true;
    head.dtype = DType::kBF16;
    const auto file = ModelFile::Open(WriteTinyEagle3(head, dir.Join("head")));
    ASSERT_TRUE(file) << file.error().message;
    const ModelConfig& config = file->config();
    EXPECT_EQ(config.architecture, "eagle3");
    EXPECT_EQ(config.vocab_size, head.target.vocab);
    EXPECT_EQ(config.num_layers, 1);
    ASSERT_TRUE(config.eagle3);
    EXPECT_EQ(config.eagle3->draft_vocab_size, 160);
    EXPECT_EQ(config.eagle3->target_hidden_size, 64);
    EXPECT_EQ(config.eagle3->tap_layers, head.taps);
    EXPECT_TRUE(config.eagle3->fc_norm && config.eagle3->norm_output);
    EXPECT_FALSE(config.eagle3->norm_before_fc || config.eagle3->norm_before_residual);
    ExpectTensors(*file, MakeTinyEagle3(head), DType::kBF16, 2);
    EXPECT_EQ(file->Find("d2t")->ToString(), "[160] I64");
    EXPECT_EQ(file->Find("t2d")->ToString(), "[320] BOOL");
    EXPECT_NE(file->Find(spelling == HeadSpelling::kSpeculators ? "layers.0.hidden_norm.weight" : "midlayer.hidden_norm.weight"), nullptr);
    EXPECT_TRUE(file->text().tokenizer_json.empty());
  }
}

TEST(ModelFile, HeadsThatShareOrOwnTheirVocabulary) {
  TempDir dir;
  TinyEagle3 shares;
  shares.draft_vocab = 0;
  shares.spelling = HeadSpelling::kSpeculators;
  const auto without = ModelFile::Open(WriteTinyEagle3(shares, dir.Join("shares")));
  ASSERT_TRUE(without) << without.error().message;
  EXPECT_EQ(without->config().eagle3->draft_vocab_size, 0);
  EXPECT_EQ(without->Find("lm_head.weight"), nullptr);
  TinyEagle3 owns;
  owns.hidden = 32;
  owns.heads = owns.kv_heads = 2;
  owns.own_embeddings = true;
  const auto with = ModelFile::Open(WriteTinyEagle3(owns, dir.Join("owns")));
  ASSERT_TRUE(with) << with.error().message;
  EXPECT_EQ(with->config().hidden_size, 32);
  EXPECT_EQ(with->config().eagle3->target_hidden_size, 64);
  EXPECT_TRUE(with->Find("embed_tokens.weight")->HasShape({320, 32}));
  EXPECT_TRUE(with->Find("fc.weight")->HasShape({32, 192}));
}

// Its own output rows without draft_vocab_size in the config: the rows say it.
TEST(ModelFile, AHeadsOutputRowsCountWhereTheConfigIsSilent) {
  TempDir dir;
  const std::string folder = WriteTinyEagle3(TinyEagle3{}, dir.Join("head"));
  std::string config = ReadFile(folder + "/config.json");
  const size_t at = config.find("\"draft_vocab_size\": 160");
  ASSERT_NE(at, std::string::npos);
  WriteFile(folder + "/config.json", config.replace(at, 23, "\"draft_vocab_size\": null"));
  const auto file = ModelFile::Open(folder);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->config().eagle3->draft_vocab_size, 160);
}

TEST(ModelFile, OneSafetensorsFileWithItsConfig) {
  TempDir dir;
  const std::string folder = WriteTinyEagle3(TinyEagle3{}, dir.Join("head"));
  const auto file = ModelFile::Open(folder + "/model.safetensors");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->config().architecture, "eagle3");
  EXPECT_EQ(file->file_bytes(), static_cast<int64_t>(ReadFile(folder + "/model.safetensors").size()));
}

// Old writers do not pad the header: the numbers then lie at odd addresses, but readers get them at even ones.
TEST(ModelFile, UnpaddedHeadersAreAligned) {
  TempDir dir;
  WriteTinyFolder(TinyLlama{}, dir.path());
  const float values[] = {1.5f, -2.0f};
  const std::string data(reinterpret_cast<const char*>(values), sizeof(values));
  for (int spaces = 0; spaces < 8; ++spaces) {
    const std::string header = R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})" + std::string(static_cast<size_t>(spaces), ' ');
    WriteFile(dir.Join("model.safetensors"), testing::SafetensorsBytes(header, data));
    const auto file = ModelFile::Open(dir.path());
    ASSERT_TRUE(file) << file.error().message;
    const TensorView* view = file->Find("x");
    EXPECT_EQ(reinterpret_cast<uintptr_t>(view->data) % 4, 0u);
    EXPECT_EQ(BytesOf(*view), data);
    file->DropPages(*view);
  }
}

TEST(ModelFile, WhatIsNoModel) {
  TempDir dir;
  EXPECT_ERROR(ModelFile::Open(dir.Join("missing.gguf")), ErrorCode::kNotFound, "missing.gguf");
  EXPECT_ERROR(ModelFile::Open(dir.Join("missing.safetensors")), ErrorCode::kNotFound, "missing.safetensors");
  EXPECT_ERROR(ModelFile::Open(dir.path()), ErrorCode::kNotFound, dir.path(), "config.json");
  WriteFile(dir.Join("text.gguf"), "not a model");
  EXPECT_ERROR(ModelFile::Open(dir.Join("text.gguf")), kInvalid, "text.gguf", "GGUF", "11 bytes");
  WriteFile(dir.Join("empty"), "");
  EXPECT_ERROR(ModelFile::Open(dir.Join("empty")), kInvalid, "empty", "0 bytes");
  WriteFile(dir.Join("alone.safetensors"), "");
  EXPECT_ERROR(ModelFile::Open(dir.Join("alone.safetensors")), ErrorCode::kNotFound, "config.json");
}

TEST(ModelFile, FoldersWithoutReadableWeights) {
  TempDir dir;
  WriteTinyFolder(TinyLlama{}, dir.path());
  std::filesystem::remove(dir.Join("model.safetensors"));
  EXPECT_ERROR(ModelFile::Open(dir.path()), ErrorCode::kNotFound, dir.path(), "model.safetensors.index.json");
  WriteFile(dir.Join("pytorch_model.bin"), "x");
  EXPECT_ERROR(ModelFile::Open(dir.path()), ErrorCode::kNotFound, "pytorch_model.bin", "save the model as safetensors");
}

constexpr const char* kTextFiles[] = {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
                                      "chat_template.jinja"};

TEST(ModelFile, AnEmptyTextFileIsNamed) {
  for (const char* name : kTextFiles) {
    TempDir dir;
    WriteTinyFolder(TinyLlama{}, dir.path());
    for (const char* text : {"", "\xEF\xBB\xBF"}) {
      WriteFile(dir.Join(name), text);
      EXPECT_ERROR(ModelFile::Open(dir.path()), kInvalid, dir.Join(name), "got an empty file");
    }
  }
}

TEST(ModelFile, AByteOrderMarkIsNoPartOfATextFile) {
  TempDir dir;
  TinyLlama model;
  model.vocabulary = true;
  WriteTinyFolder(model, dir.path());
  WriteFile(dir.Join("chat_template.jinja"), "{{ messages }}");
  const auto plain = ModelFile::Open(dir.path());
  ASSERT_TRUE(plain) << plain.error().message;
  for (const char* name : kTextFiles) {
    if (std::filesystem::exists(dir.Join(name))) WriteFile(dir.Join(name), "\xEF\xBB\xBF" + ReadFile(dir.Join(name)));
  }
  const auto marked = ModelFile::Open(dir.path());
  ASSERT_TRUE(marked) << marked.error().message;
  EXPECT_EQ(marked->text().tokenizer_json, plain->text().tokenizer_json);
  EXPECT_EQ(marked->text().chat_template, plain->text().chat_template);
  EXPECT_EQ(marked->text().eos_ids, plain->text().eos_ids);
}

TEST(ModelFile, FolderAndConfigMustAgree) {
  TempDir dir;
  TinyLlama model;
  WriteTinyFolder(model, dir.path());
  const std::string weights = ReadFile(dir.Join("model.safetensors"));
  model.vocab = 321;
  WriteTinyFolder(model, dir.path());
  WriteFile(dir.Join("model.safetensors"), weights);
  EXPECT_ERROR(ModelFile::Open(dir.path()), kInvalid, "model.embed_tokens.weight", "[321, 64]", "[320, 64]");
}

class BadIndex : public ::testing::Test {
 protected:
  BadIndex() {
    TinyLlama model;
    model.shards = 2;
    WriteTinyFolder(model, dir_.path());
  }
  auto OpenWith(const std::string& index) {
    WriteFile(dir_.Join("model.safetensors.index.json"), index);
    return ModelFile::Open(dir_.path());
  }
  TempDir dir_;
};

TEST_F(BadIndex, IsRefused) {
  ASSERT_TRUE(ModelFile::Open(dir_.path()));
  for (const char* name : {"\"../other.safetensors\"", "\"/etc/x.safetensors\"", "\"a/b.safetensors\"", "\"x.bin\"", "\"\"", "1", "null",
                           "\"a\\u0000.safetensors\""}) {
    EXPECT_ERROR(OpenWith(fmt::format("{{\"weight_map\":{{\"a\":{}}}}}", name)), kInvalid, "index.json", "tensor a", "in this folder");
  }
  EXPECT_ERROR(OpenWith("{}"), kInvalid, "weight_map");
  EXPECT_ERROR(OpenWith("[]"), kInvalid, "JSON");
  EXPECT_ERROR(OpenWith(R"({"weight_map":[]})"), kInvalid, "weight_map", "an object");
  EXPECT_ERROR(OpenWith(R"({"weight_map":{"a":"gone.safetensors"}})"), ErrorCode::kNotFound, "gone.safetensors");
  EXPECT_ERROR(OpenWith(R"({"weight_map":{"ghost":"model-00001-of-00002.safetensors"}})"), kInvalid, "tensor ghost", "no such tensor");
}

TEST_F(BadIndex, ATensorInTwoShards) {
  std::filesystem::copy(dir_.Join("model-00001-of-00002.safetensors"), dir_.Join("again.safetensors"));
  EXPECT_ERROR(
      OpenWith(
          R"({"weight_map":{"model.embed_tokens.weight":"again.safetensors","model.layers.0.mlp.up_proj.weight":"model-00001-of-00002.safetensors"}})"),
      kInvalid, "two of model.embed_tokens.weight");
}

TEST(SplitGguf, IncompleteOrMixedUp) {
  TempDir dir;
  TinyLlama model;
  model.shards = 3;
  const std::string first = WriteTinyGguf(model, dir.Join("tiny.gguf"));
  const std::string second = dir.Join("tiny-00002-of-00003.gguf"), third = dir.Join("tiny-00003-of-00003.gguf");
  ASSERT_TRUE(ModelFile::Open(first));
  EXPECT_ERROR(ModelFile::Open(second), kInvalid, "tiny-00002-of-00003.gguf", "first file of a set of 3", "-00001-of-00003.gguf");
  std::filesystem::copy(first, dir.Join("renamed.gguf"));
  EXPECT_ERROR(ModelFile::Open(dir.Join("renamed.gguf")), kInvalid, "renamed.gguf", "-00001-of-00003.gguf");
  std::filesystem::copy_file(second, third, std::filesystem::copy_options::overwrite_existing);
  EXPECT_ERROR(ModelFile::Open(first), kInvalid, "tiny-00003-of-00003.gguf", "split.no", "expected 2");
  std::filesystem::remove(third);
  EXPECT_ERROR(ModelFile::Open(first), ErrorCode::kNotFound, "tiny-00003-of-00003.gguf");
  testing::GgufWriter empty;
  empty.Raw("split.no", 2, testing::LittleEndian<uint16_t>(2));
  empty.Raw("split.count", 2, testing::LittleEndian<uint16_t>(3));
  WriteFile(third, empty.Bytes());
  EXPECT_ERROR(ModelFile::Open(first), kInvalid, "tensors in the set");
}

}  // namespace
}  // namespace haast::io
