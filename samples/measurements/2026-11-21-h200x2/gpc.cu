// Which SMs clusters of 2 to 16 workgroups share, and where the workgroups of a plain grid go first.
#include <cstdio>
#include <vector>
#include <cuda_runtime.h>
#include <cooperative_groups.h>
__device__ unsigned smid() { unsigned r; asm volatile("mov.u32 %0, %smid;" : "=r"(r)); return r; }
__global__ void who(unsigned* out, long long spin) { if (threadIdx.x == 0) { out[blockIdx.x] = smid(); long long t = clock64(); while (clock64() - t < spin) {} } }
int main() {
  cudaFuncSetAttribute(who, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 * 1024);
  cudaFuncSetAttribute(who, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  unsigned* d; cudaMallocManaged(&d, 4096 * 4);
  std::vector<int> root(256); for (int i = 0; i < 256; i++) root[i] = i;
  auto find = [&](int x) { while (root[x] != x) x = root[x]; return x; };
  for (int size : {2, 4, 8, 16}) {
    cudaLaunchConfig_t c = {}; c.gridDim = 128 / size * size; c.blockDim = 128; c.dynamicSmemBytes = 200 * 1024;
    cudaLaunchAttribute a; a.id = cudaLaunchAttributeClusterDimension; a.val.clusterDim.x = size; a.val.clusterDim.y = a.val.clusterDim.z = 1; c.attrs = &a; c.numAttrs = 1;
    int most = 0; cudaOccupancyMaxActiveClusters(&most, who, &c);
    for (int rep = 0; rep < 20; rep++) {
      cudaLaunchKernelEx(&c, who, d, (long long)200000); cudaError_t e = cudaDeviceSynchronize(); if (e) { printf("%s\n", cudaGetErrorString(e)); return 1; }
      for (int i = 0; i < (int)c.gridDim.x; i++) { int x = find(d[i]), y = find(d[i / size * size]); root[x] = y; }
    }
    printf("cluster %d: at most %d clusters active; first:", size, most); for (int i = 0; i < 16; i++) printf(" %u", d[i]); printf("\n");
    std::vector<std::vector<int>> g(256); for (int i = 0; i < 132; i++) g[find(i)].push_back(i);
    for (auto& v : g) if (v.size() > 1) { printf("  group of %zu:", v.size()); for (int x : v) printf(" %d", x); printf("\n"); }
  }
  for (int threads : {512, 640, 1024}) for (int n : {1, 2, 4, 8, 16, 24, 32, 48, 66, 132}) {
    who<<<n, threads, 100 * 1024>>>(d, 200000); cudaDeviceSynchronize();
    printf("plain grid %d of %d threads:", n, threads); std::vector<int> per(256); for (int i = 0; i < n; i++) { printf(" %u", d[i]); per[find(d[i])]++; } printf(" | by group:"); for (int x : per) if (x) printf(" %d", x); printf("\n");
  }
}
