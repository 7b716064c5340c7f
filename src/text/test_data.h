// The golden files of testdata/, read for the tests (testdata/make_goldens.py says what they hold).
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "haast/text_assets.h"
#include "text/tokenizer.h"

namespace haast::text {

using Json = nlohmann::ordered_json;

std::string ReadTestFile(const std::string& name);
std::vector<Json> ReadJsonLines(const std::string& name);

// The default model's vocabulary, as GGUF metadata gives it and as a tokenizer.json.
TextAssets SmollmGguf();
TextAssets SmollmJson();
// The tiny SentencePiece vocabulary, likewise.
TextAssets SpmGguf();
TextAssets SpmJson();

// One tokenizer of each, made on first use.
const Tokenizer& SmollmTokenizer();
const Tokenizer& SpmTokenizer();

}  // namespace haast::text
