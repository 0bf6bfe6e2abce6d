// Times how a workgroup draws its tile: an addition to a counter that all workgroups share, then a read of the tile's
// place in an order, then a barrier, as cuSync does. Prints one JSON row a line; us is the mean over workgroups.
#include <cuda_runtime.h>
#include <algorithm>
#include <cstdio>
#include <vector>
typedef unsigned long long u64;
__device__ __forceinline__ u64 now() { u64 t; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)); return t; }
__global__ void draw(unsigned *counter, const uint3 *order, int what, long long *took, uint3 *out) {
  __shared__ uint3 tile;
  __syncthreads();
  long long from = clock64();
  if (what > 0 && threadIdx.x == 0) {
    unsigned i = atomicAdd(counter, 1);
    tile = what > 1 ? order[i] : make_uint3(i, 0, 0);
  }
  __syncthreads();
  if (what > 0) out[blockIdx.x] = tile;
  if (threadIdx.x == 0) took[blockIdx.x] = clock64() - from;
}
int main() {
  cudaDeviceProp p; cudaGetDeviceProperties(&p, 0);
  int khz; cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, 0);
  unsigned *counter; uint3 *order, *out; long long *took; char *flush; size_t big = 256 << 20;
  cudaMalloc(&counter, 4); cudaMalloc(&order, 4096 * sizeof(uint3)); cudaMalloc(&out, 4096 * sizeof(uint3)); cudaMalloc(&took, 4096 * 8); cudaMalloc(&flush, big);
  cudaMemset(order, 0, 4096 * sizeof(uint3));
  printf("{\"row\": \"gpu\", \"name\": \"%s\", \"cus\": %d, \"mhz\": %d}\n", p.name, p.multiProcessorCount, khz / 1000);
  const char *names[] = {"barrier", "counter", "counter and order"};
  for (int cold = 0; cold < 2; cold++) for (int wgs : {24, p.multiProcessorCount, 2 * p.multiProcessorCount, 4 * p.multiProcessorCount}) for (int what = 0; what < 3; what++) {
    std::vector<double> us;
    for (int r = 0; r < 40; r++) {
      if (cold) cudaMemset(flush, r, big);
      cudaMemset(counter, 0, 4);
      draw<<<wgs, 256>>>(counter, order, what, took, out);
      std::vector<long long> t(wgs); cudaMemcpy(t.data(), took, wgs * 8, cudaMemcpyDeviceToHost);
      double sum = 0; for (auto x : t) sum += x;
      us.push_back(sum / wgs / khz * 1e3);
    }
    std::sort(us.begin(), us.end());
    printf("{\"row\": \"draw\", \"what\": \"%s\", \"workgroups\": %d, \"order_in_cache\": %s, \"us\": %.3f}\n", names[what], wgs, cold ? "false" : "true", us[us.size() / 2]);
  }
  return 0;
}
