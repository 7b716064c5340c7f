// Writes the seeds of the fuzz corpora: make_seeds tests/fuzz/corpus. Small files of every form that the readers accept;
// what a fuzzing run finds beyond them is added by hand when it was a bug.
#include <filesystem>
#include <string>

#include "engine/session_file.h"
#include "support/safetensors_writer.h"
#include "support/tiny_gguf.h"

namespace {

using namespace haast::testing;

void WriteGgufSeeds(const std::string& folder) {
  std::filesystem::create_directories(folder);
  TinyLlama model = SmallestLlama();
  model.tied = false;
  WriteFile(folder + "/untied.gguf", MakeTinyGguf(model).Bytes());
  model.tied = model.attention_bias = model.output_bias = model.mlp_bias = model.llama3_rope = true;
  WriteFile(folder + "/biases.gguf", MakeTinyGguf(model).Bytes());
  model = SmallestLlama();
  GgufWriter writer = MakeTinyGguf(model);
  writer.version = 2;
  writer.String("llama.rope.scaling.type", "linear");
  writer.F32("llama.rope.scaling.factor", 2);
  writer.String("tokenizer.ggml.model", "llama");
  writer.Strings("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", "a", "<|im_end|>"});
  writer.Floats("tokenizer.ggml.scores", {0, 0, 0, -1, 0});
  writer.Ints("tokenizer.ggml.token_type", {2, 3, 3, 1, 3});
  writer.Strings("tokenizer.ggml.merges", {"a b"});
  writer.U32("tokenizer.ggml.eos_token_id", 2);
  writer.Bool("tokenizer.ggml.add_bos_token", true);
  writer.String("tokenizer.chat_template", "{{ messages }}");
  writer.U32("general.alignment", 32);
  WriteFile(folder + "/text.gguf", writer.Bytes());
  model.hidden = model.intermediate = 32;
  model.dtype = haast::DType::kQ4_0;
  model.head_dim = 16;
  model.vocab = 4;
  WriteFile(folder + "/blocks.gguf", MakeTinyGguf(model).Bytes());
}

void WriteSafetensorsSeeds(const std::string& folder) {
  std::filesystem::create_directories(folder);
  WriteFile(folder + "/types.safetensors", SafetensorsBytes({{"a", "F32", {2, 3}, std::string(24, 'a')},
                                                             {"b.weight", "BF16", {4}, std::string(8, 'b')},
                                                             {"c", "I64", {1, 1, 2}, std::string(16, 'c')},
                                                             {"d", "BOOL", {3}, std::string(3, 'd')},
                                                             {"e", "F16", {}, std::string(2, 'e')}}));
  WriteFile(folder + "/empty.safetensors", SafetensorsBytes({}));
}

void WriteConfigSeeds(const std::string& folder) {
  std::filesystem::create_directories(folder);
  TempDir dir;
  TinyLlama model;
  model.vocabulary = model.llama3_rope = true;
  WriteTinyFolder(model, dir.path());
  const std::string tokenizer = R"({"added_tokens":[{"id":5,"content":"<end>"}]})";
  const std::string named = R"({"eos_token":{"content":"<end>"},"add_bos_token":true,"chat_template":[{"name":"default","template":"D"}]})";
  const std::string generation = R"({"eos_token_id":[2,3]})";
  WriteFile(folder + "/llama",
            ReadFile(dir.Join("config.json")) + "\x1e" + generation + "\x1e" + tokenizer + "\x1e" + named + "\x1e" + "J");
  TinyEagle3 head;
  head.fc_norm = head.norm_before_fc = head.norm_output = head.norm_before_residual = true;
  for (const HeadSpelling spelling : {HeadSpelling::kSafeAiLab, HeadSpelling::kSpecForge, HeadSpelling::kSpeculators}) {
    head.spelling = spelling;
    WriteFile(folder + "/head" + std::to_string(static_cast<int>(spelling)),
              ReadFile(WriteTinyEagle3(head, dir.Join("head")) + "/config.json"));
  }
}

// The fields alone: the fuzz target puts header and checksum around them.
void WriteSessionSeeds(const std::string& folder) {
  std::filesystem::create_directories(folder);
  haast::engine::Session session;
  const auto write = [&](const char* name) {
    const std::vector<uint8_t> bytes = haast::engine::EncodeSession(session);
    WriteFile(folder + "/" + name, std::string(bytes.begin() + 20, bytes.end() - 8));
  };
  write("empty");
  session.origin = {"build", "cpu", "F16", 1, 2, "auto"};
  session.request.prompt = {1, 2, 3};
  session.request.eos_ids = {2};
  session.request.speculation.algorithm = haast::SpeculativeAlgorithm::kEagle3;
  session.generated = {4, 5};
  session.stats.accepted_at = {1, 0, 0};
  session.kv_state = {1, 2, 3, 4};
  session.note = "note";
  write("fields");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string corpus = argv[1];
  WriteGgufSeeds(corpus + "/gguf");
  WriteSafetensorsSeeds(corpus + "/safetensors");
  WriteConfigSeeds(corpus + "/config");
  WriteSessionSeeds(corpus + "/session");
  return 0;
}
