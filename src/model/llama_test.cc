// What a Llama's file must hold.
#include "model/llama.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/thread_pool.h"
#include "support/expect_error.h"
#include "support/tiny_models.h"

namespace haast::model {
namespace {

using ::haast::testing::TempDir;
using ::haast::testing::TinyLlama;

// Every one of them, not only the first: without it the layer would compute something else.
TEST(Llama, BiasesThatTheConfigurationPromisesAreThere) {
  TempDir dir;
  TinyLlama llama;
  llama.attention_bias = llama.mlp_bias = true;
  const std::string path = WriteTinyFolder(llama, dir.Join("biased")) + "/model.safetensors";
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  base::ThreadPool pool(1);
  const LoadContext load{kernels::RefOps(), pool, std::nullopt};
  for (const std::string name : {"1.self_attn.q", "1.self_attn.k", "0.self_attn.v", "0.mlp.gate", "1.mlp.up", "1.mlp.down"}) {
    std::string changed = bytes.str();
    changed.replace(changed.find("model.layers." + name + "_proj.bias"), 5, "other");
    std::ofstream(path, std::ios::binary) << changed;
    const auto file = io::ModelFile::Open(dir.Join("biased"));
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_ERROR(Llama::Load(*file, {256, {}}, load), ErrorCode::kNotFound, "tensor model.layers." + name + "_proj.bias is missing",
                 name.find("mlp") == name.npos ? "sets attention_bias" : "sets mlp_bias");
  }
  std::ofstream(path, std::ios::binary) << bytes.str();
  const auto whole = io::ModelFile::Open(dir.Join("biased"));
  EXPECT_TRUE(Llama::Load(*whole, {256, {}}, load));
}

}  // namespace
}  // namespace haast::model
