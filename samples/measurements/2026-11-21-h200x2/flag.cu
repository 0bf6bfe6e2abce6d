// One-way latency of a flag to a peer's memory: alone, behind fences, and behind a payload.
#include <cstdio>
#include <cstdlib>
#include <algorithm>
#include <vector>
#include <cuda_runtime.h>
#define CK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { printf("%s: %s\n", #x, cudaGetErrorString(e)); exit(1); } } while (0)
__device__ __forceinline__ void st(volatile unsigned* p, unsigned v) { asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }
__device__ __forceinline__ unsigned ld(volatile unsigned* p) { unsigned v; asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
// Each side waits for its flag to reach i, then stores `payload` float4s a thread into the peer, fences, and posts to the peer.
__global__ void pingpong(unsigned* mine, unsigned* peer, float4* to, int payload, int rounds, int first, int fence, long long* clocks) {
  long long t0 = 0, fences = 0;
  for (int i = 1; i <= rounds; i++) {
    if (!first || i > 1) {
      if (threadIdx.x == 0) while (ld(mine) < (unsigned)(first ? i - 1 : i)) {}
      __syncthreads();
    }
    if (i == 11) t0 = clock64();
    long long f0 = clock64();
    for (int j = 0; j < payload; j++) to[j * blockDim.x + threadIdx.x] = make_float4(i, i, i, i);
    if (fence == 1) __threadfence_system();           // every thread
    __syncthreads();
    if (threadIdx.x == 0) {
      if (fence == 2) __threadfence_system();         // the leader, after the barrier
      fences += clock64() - f0;
      if (fence == 3) asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(peer), "r"(i) : "memory");
      else st(peer, i);
    }
  }
  if (threadIdx.x == 0 && first) { while (ld(mine) < (unsigned)rounds) {} clocks[0] = clock64() - t0; clocks[1] = fences; }
}
// Every block: store payload to the peer, fence, flag; clock per round with no waiting for the peer.
__global__ void fences(float4* to, unsigned* flags, int payload, int rounds, int fence, long long* clocks) {
  float4* mine = to + (size_t)blockIdx.x * payload * blockDim.x;
  long long t0 = clock64();
  for (int i = 0; i < rounds; i++) {
    for (int j = 0; j < payload; j++) mine[j * blockDim.x + threadIdx.x] = make_float4(i, i, i, i);
    __syncthreads();
    if (threadIdx.x == 0) { if (fence) __threadfence_system(); st(flags + blockIdx.x * 32, i); }
    __syncthreads();
  }
  if (threadIdx.x == 0) clocks[blockIdx.x] = clock64() - t0;
}
int main() {
  int n; CK(cudaGetDeviceCount(&n)); if (n < 2) { printf("one GPU\n"); return 0; }
  unsigned* flag[2]; float4* buf[2]; long long* clk[2]; cudaStream_t s[2];
  for (int d = 0; d < 2; d++) { CK(cudaSetDevice(d)); CK(cudaDeviceEnablePeerAccess(1 - d, 0)); CK(cudaMalloc(&flag[d], 1 << 20)); CK(cudaMalloc(&buf[d], 1 << 28)); CK(cudaMallocManaged(&clk[d], 1 << 16)); CK(cudaStreamCreate(&s[d])); }
  CK(cudaSetDevice(0));
  const int rounds = 1010;
  for (int threads : {32, 512})
    for (int payload : {0, 1, 4, 16})
      for (int fence : {0, 1, 2, 3}) {
        if (fence == 0 && payload > 0) continue;
        std::vector<double> ns;
        for (int rep = 0; rep < 5; rep++) {
          for (int d = 0; d < 2; d++) { CK(cudaSetDevice(d)); CK(cudaMemset(flag[d], 0, 1 << 20)); CK(cudaDeviceSynchronize()); }
          cudaEvent_t a, b; CK(cudaSetDevice(0)); CK(cudaEventCreate(&a)); CK(cudaEventCreate(&b));
          CK(cudaSetDevice(1)); pingpong<<<1, threads, 0, s[1]>>>(flag[1], flag[0], buf[0], payload, rounds, 0, fence, clk[1]);
          CK(cudaSetDevice(0)); CK(cudaEventRecord(a, s[0])); pingpong<<<1, threads, 0, s[0]>>>(flag[0], flag[1], buf[1], payload, rounds, 1, fence, clk[0]);
          CK(cudaEventRecord(b, s[0])); CK(cudaDeviceSynchronize()); CK(cudaSetDevice(1)); CK(cudaDeviceSynchronize());
          float ms; CK(cudaEventElapsedTime(&ms, a, b)); ns.push_back(ms * 1e6 / rounds / 2);
        }
        std::sort(ns.begin(), ns.end());
        printf("{\"what\": \"pingpong\", \"threads\": %d, \"bytes\": %d, \"fence\": %d, \"one_way_ns\": %.0f, \"min_ns\": %.0f, \"max_ns\": %.0f}\n", threads, payload * threads * 16, fence, ns[2], ns[0], ns[4]);
      }
  int khz; CK(cudaSetDevice(0)); CK(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, 0));
  for (int blocks : {1, 8, 32, 132})
    for (int payload : {0, 1, 4, 16, 64})
      for (int fence : {0, 1}) {
        const int r = 200; cudaEvent_t a, b; CK(cudaEventCreate(&a)); CK(cudaEventCreate(&b));
        for (int rep = 0; rep < 2; rep++) { CK(cudaEventRecord(a, s[0])); fences<<<blocks, 512, 0, s[0]>>>(buf[1], flag[1], payload, r, fence, clk[0]); CK(cudaEventRecord(b, s[0])); CK(cudaDeviceSynchronize()); }
        float ms; CK(cudaEventElapsedTime(&ms, a, b));
        printf("{\"what\": \"store+fence+flag\", \"blocks\": %d, \"bytes_a_block\": %d, \"fence\": %d, \"ns_a_round\": %.0f}\n", blocks, payload * 512 * 16, fence, ms * 1e6 / r);
      }
}
