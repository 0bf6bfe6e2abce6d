// Times GEMMs of 64x64 tiles by the depth of a step along K, with workgroups that loop over tiles. One JSON row a line.
#include <cuda_fp16.h>
#include <mma.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>
using namespace nvcuda;
#define CHECK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(e)); exit(1); } } while (0)

// STAGES 1: load, barrier, multiply, barrier. 2: the next step's loads are in flight during the products.
template <int TK, int STAGES>
__global__ void __launch_bounds__(256) gemm(const half *a, const half *b, half *c, int m, int n, int k) {
  const int T = 64, LDA = TK + 8, LDB = T + 8, NV = T * TK / 8 / 256;
  __shared__ half sa[STAGES][T * LDA], sb[STAGES][TK * LDB];
  const int tid = threadIdx.x, warp = tid / 32, wr = warp / 2, wc = warp % 2; // a warp: 16 rows, 32 columns
  const int cols = n / T, tiles = m / T * cols, steps = k / TK;
  for (int t = blockIdx.x; t < tiles; t += gridDim.x) {
    const int row = t / cols * T, col = t % cols * T;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2];
    wmma::fill_fragment(acc[0], 0.f); wmma::fill_fragment(acc[1], 0.f);
    int4 ra[NV], rb[NV];
    auto load = [&](int s) {
#pragma unroll
      for (int i = 0; i < NV; i++) {
        int v = tid + i * 256;
        ra[i] = *(const int4 *)(a + (size_t)(row + v / (TK / 8)) * k + s * TK + v % (TK / 8) * 8);
        rb[i] = *(const int4 *)(b + (size_t)(s * TK + v / 8) * n + col + v % 8 * 8);
      }
    };
    auto store = [&](int at) {
#pragma unroll
      for (int i = 0; i < NV; i++) {
        int v = tid + i * 256;
        *(int4 *)(&sa[at][v / (TK / 8) * LDA + v % (TK / 8) * 8]) = ra[i];
        *(int4 *)(&sb[at][v / 8 * LDB + v % 8 * 8]) = rb[i];
      }
    };
    load(0); store(0); __syncthreads();
    for (int s = 0; s < steps; s++) {
      const int at = STAGES == 2 ? s & 1 : 0;
      if (STAGES == 2 && s + 1 < steps) load(s + 1);
#pragma unroll
      for (int kk = 0; kk < TK; kk += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
        wmma::load_matrix_sync(fa, &sa[at][wr * 16 * LDA + kk], LDA);
#pragma unroll
        for (int j = 0; j < 2; j++) {
          wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
          wmma::load_matrix_sync(fb, &sb[at][kk * LDB + wc * 32 + j * 16], LDB);
          wmma::mma_sync(acc[j], fa, fb, acc[j]);
        }
      }
      if (STAGES == 1) { __syncthreads(); if (s + 1 < steps) { load(s + 1); store(0); } }
      else if (s + 1 < steps) store(at ^ 1);
      __syncthreads();
    }
    for (int j = 0; j < 2; j++) {
      wmma::fragment<wmma::accumulator, 16, 16, 16, half> f;
      for (int e = 0; e < f.num_elements; e++) f.x[e] = __float2half(acc[j].x[e]);
      wmma::store_matrix_sync(c + (size_t)(row + wr * 16) * n + col + wc * 32 + j * 16, f, n, wmma::mem_row_major);
    }
    __syncthreads();
  }
}
template <int TK, int STAGES> void time(int m, int n, int k, int blocks, const half *a, const half *b, half *c) {
  cudaEvent_t x, y; cudaEventCreate(&x); cudaEventCreate(&y); std::vector<float> us;
  for (int i = 0; i < 9; i++) {
    cudaEventRecord(x); gemm<TK, STAGES><<<blocks, 256>>>(a, b, c, m, n, k); cudaEventRecord(y); CHECK(cudaEventSynchronize(y));
    float ms; cudaEventElapsedTime(&ms, x, y); if (i > 1) us.push_back(ms * 1e3f);
  }
  std::sort(us.begin(), us.end());
  printf("{\"row\": \"steps\", \"tile\": \"64x64x%d\", \"stages\": %d, \"m\": %d, \"n\": %d, \"k\": %d, \"workgroups\": %d, \"us\": %.2f}\n", TK, STAGES, m, n, k, blocks, us[us.size() / 2]);
  fflush(stdout);
}
int main() {
  cudaDeviceProp d; CHECK(cudaGetDeviceProperties(&d, 0)); int sms = d.multiProcessorCount;
  printf("{\"row\": \"gpu\", \"name\": \"%s\", \"cus\": %d}\n", d.name, sms);
  half *a, *b, *c; size_t big = (size_t)8192 * 8192 * 2; CHECK(cudaMalloc(&a, big)); CHECK(cudaMalloc(&b, big)); CHECK(cudaMalloc(&c, big));
  CHECK(cudaMemset(a, 0x11, big)); CHECK(cudaMemset(b, 0x11, big));
  struct { int m, n, k; } shapes[] = {{4096, 4096, 8192}, {8192, 4096, 1024}, {8192, 8192, 512}};
  for (auto s : shapes) for (int blocks : {16, sms / 2, sms, 2 * sms, 4 * sms, s.m / 64 * (s.n / 64)}) {
    time<32, 1>(s.m, s.n, s.k, blocks, a, b, c); time<64, 1>(s.m, s.n, s.k, blocks, a, b, c);
    time<32, 2>(s.m, s.n, s.k, blocks, a, b, c); time<64, 2>(s.m, s.n, s.k, blocks, a, b, c);
    time<128, 1>(s.m, s.n, s.k, blocks, a, b, c);
  }
  return 0;
}
