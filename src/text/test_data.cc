#include "text/test_data.h"

#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "base/check.h"

namespace haast::text {
namespace {

constexpr int kSmollmSpecials = 17;

// A byte file read front to back; reading past its end is a damaged golden file, which ends the test.
class Reader {
 public:
  explicit Reader(std::string bytes) : bytes_(std::move(bytes)) {}
  std::string Take(size_t count) {
    HAAST_CHECK(count <= bytes_.size() - at_) << "golden file: " << count << " bytes wanted at " << at_ << " of " << bytes_.size();
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }
  template <typename T>
  T Value() {
    T value;
    std::memcpy(&value, Take(sizeof(T)).data(), sizeof(T));
    return value;
  }

 private:
  std::string bytes_;
  size_t at_ = 0;
};

std::unique_ptr<const Tokenizer> Make(const TextAssets& assets) {
  auto tokenizer = Tokenizer::Create(assets);
  HAAST_CHECK(tokenizer.has_value()) << tokenizer.error().message;
  return std::move(*tokenizer);
}

}  // namespace

std::string ReadTestFile(const std::string& name) {
  std::ifstream file(std::string(HAAST_TEXT_TESTDATA) + "/" + name, std::ios::binary);
  HAAST_CHECK(file.good()) << "missing golden file " << name;
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}

std::vector<Json> ReadJsonLines(const std::string& name) {
  std::istringstream lines(ReadTestFile(name));
  std::vector<Json> rows;
  for (std::string line; std::getline(lines, line);) rows.push_back(Json::parse(line));
  return rows;
}

TextAssets SmollmGguf() {
  Reader file(ReadTestFile("smollm_vocab.bin"));
  HAAST_CHECK(file.Take(6) == "HVOC1\n") << "smollm_vocab.bin: wrong magic";
  TextAssets assets;
  assets.source = "smollm.gguf";
  GgufVocab& vocab = assets.gguf;
  vocab.model = "gpt2";
  vocab.pre = "smollm";
  const auto base = file.Value<uint32_t>();
  for (uint32_t i = 0; i < base; ++i) vocab.tokens.push_back(file.Take(file.Value<uint8_t>()));
  const auto merges = file.Value<uint32_t>();
  for (uint32_t i = 0; i < merges; ++i) {
    const std::string left = vocab.tokens.at(file.Value<uint16_t>());
    const std::string right = vocab.tokens.at(file.Value<uint16_t>());
    vocab.merges.push_back(left + " " + right);
    vocab.tokens.push_back(left + right);
  }
  vocab.types.assign(vocab.tokens.size(), 1);
  std::fill_n(vocab.types.begin(), kSmollmSpecials, 3);
  assets.bos_id = 1;
  assets.eos_ids = {2, 0};
  assets.pad_id = 2;
  return assets;
}

TextAssets SmollmJson() {
  TextAssets assets = SmollmGguf();
  // The vocabulary is the one large object here: plain json looks keys up in a tree, ordered_json from end to end.
  nlohmann::json vocab = nlohmann::json::object();
  nlohmann::json added = nlohmann::json::array();
  for (size_t id = 0; id < assets.gguf.tokens.size(); ++id) {
    const std::string& token = assets.gguf.tokens[id];
    vocab[token] = id;
    if (id >= kSmollmSpecials) continue;
    added.push_back({{"id", id}, {"content", token}, {"normalized", false}, {"special", true}});
    for (const char* flag : {"single_word", "lstrip", "rstrip"}) added.back()[flag] = false;
  }
  const nlohmann::json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  const nlohmann::json digits = {{"type", "Digits"}, {"individual_digits", true}};
  const nlohmann::json tokenizer = {
      {"version", "1.0"},
      {"added_tokens", added},
      {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {digits, byte_level}}}},
      {"decoder", byte_level},
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", assets.gguf.merges}}},
  };
  assets.source = "smollm/tokenizer.json";
  assets.tokenizer_json = tokenizer.dump();
  assets.gguf = {};
  return assets;
}

TextAssets SpmGguf() {
  const Json json = Json::parse(ReadTestFile("spm_vocab.json"));
  TextAssets assets;
  assets.source = "spm.gguf";
  assets.gguf.model = "llama";
  json["tokens"].get_to(assets.gguf.tokens);
  json["scores"].get_to(assets.gguf.scores);
  json["types"].get_to(assets.gguf.types);
  json["unknown_id"].get_to(assets.gguf.unknown_id);
  json["bos_id"].get_to(assets.bos_id);
  assets.eos_ids = {json["eos_id"].get<int32_t>()};
  assets.add_bos = true;
  return assets;
}

TextAssets SpmJson() {
  TextAssets assets = SpmGguf();
  assets.source = "spm/tokenizer.json";
  assets.tokenizer_json = Json::parse(ReadTestFile("spm_vocab.json"))["tokenizer_json"].dump();
  assets.gguf = {};
  assets.add_bos = false;  // its post-processor says so
  return assets;
}

const Tokenizer& SmollmTokenizer() {
  static const auto tokenizer = Make(SmollmGguf());
  return *tokenizer;
}

const Tokenizer& SpmTokenizer() {
  static const auto tokenizer = Make(SpmGguf());
  return *tokenizer;
}

}  // namespace haast::text
