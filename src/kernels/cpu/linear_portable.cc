#define HAAST_VEC_PORTABLE
#include "kernels/cpu/linear_rows.h"
#include "kernels/cpu/linear_vec.h"

namespace haast::kernels {
namespace {

// Byte `i` (lane * 4 + k % 4) of group `group`.
template <Layout kLayout>
inline int Number(const uint8_t* w, int group, int i) {
  constexpr int kBits = Format(kLayout).bits;
  if constexpr (kBits == 8) return w[64 * group + i];
  int number = (w[64 * (group / 2) + i] >> (4 * (group % 2))) & 15;
  if constexpr (kBits == 5) number |= ((w[256 + i] >> group) & 1) << 4;
  if constexpr (kBits == 6) number |= ((w[256 + 64 * (group / 4) + i] >> (2 * (group % 4))) & 3) << 4;
  return number;
}

template <Layout kLayout, int kRows, int kHalf, typename Fn>
inline void Dot(const uint8_t* w, int /*part*/, const uint8_t* act, Fn&& row) {
  constexpr int kFirst = kHalf == 1 ? 4 : 0;
  constexpr int kLast = kHalf == 0 ? 4 : 8;
  I acc[kRows];
  for (int m = 0; m < kRows; ++m) acc[m] = SetI(0);
  for (int g = kFirst; g < kLast; ++g) {
    for (int lane = 0; lane < kTileRows; ++lane) {
      for (int j = 0; j < 4; ++j) {
        const int number = Number<kLayout>(w, g, 4 * lane + j) - Format(kLayout).zero;
        for (int m = 0; m < kRows; ++m) acc[m].v[lane] += number * static_cast<int8_t>(act[m * kBlock + 4 * g + j]);
      }
    }
  }
  for (int m = 0; m < kRows; ++m) row(m, acc[m]);
}

}  // namespace
}  // namespace haast::kernels

#include "kernels/cpu/linear_tiles.h"

namespace haast::kernels {

const IsaKernels& PortableLinear() {
  static const IsaKernels kernels = MakeKernels<4>("portable");
  return kernels;
}

}  // namespace haast::kernels
