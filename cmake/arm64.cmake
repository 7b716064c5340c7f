# Cross build for 64-bit ARM on Debian (make arm64); tests run under qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_CROSSCOMPILING_EMULATOR "qemu-aarch64;-cpu;max;-L;/")
# What scripts/unpack_arm64.sh unpacked.
list(PREPEND CMAKE_PREFIX_PATH ${CMAKE_BINARY_DIR}/packages/usr)
