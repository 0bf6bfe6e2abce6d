// When and where the workgroups of clusters and of plain grids start while others hold CUs.
#include <cstdio>
#include <vector>
#include <algorithm>
#include <string>
#include <cuda_runtime.h>
typedef unsigned long long u64;
struct stamp { u64 start, end; unsigned sm; unsigned pad; };
__device__ unsigned smid() { unsigned r; asm volatile("mov.u32 %0, %smid;" : "=r"(r)); return r; }
__device__ u64 now() { u64 r; asm volatile("mov.u64 %0, %globaltimer;" : "=l"(r)); return r; }
// index < longs: spins ns*rounds, else ns
__global__ void spin(stamp* out, u64 ns, int rounds, int longs) {
  extern __shared__ char pad[];
  u64 t = now(), d = ns * (blockIdx.x < longs ? rounds : 1);
  if (threadIdx.x == 0) { out[blockIdx.x].start = t; out[blockIdx.x].sm = smid(); }
  while (now() - t < d) __nanosleep(100);
  if (threadIdx.x == 0) out[blockIdx.x].end = now();
}
#define OK(x) do { cudaError_t e = (x); if (e) { printf("%s: %s\n", #x, cudaGetErrorString(e)); exit(1); } } while (0)
static void launch(int grid, int threads, int shared, int cluster, cudaStream_t s, stamp* out, u64 ns, int rounds, int longs, bool spread = false) {
  cudaLaunchConfig_t c = {}; c.gridDim = grid; c.blockDim = threads; c.dynamicSmemBytes = shared; c.stream = s;
  cudaLaunchAttribute a[2]; a[0].id = cudaLaunchAttributeClusterDimension; a[0].val.clusterDim.x = cluster; a[0].val.clusterDim.y = a[0].val.clusterDim.z = 1;
  if (cluster > 1) { c.attrs = a; c.numAttrs = spread ? 2 : 1; a[1].id = cudaLaunchAttributeClusterSchedulingPolicyPreference; a[1].val.clusterSchedulingPolicyPreference = cudaClusterSchedulingPolicySpread; }
  OK(cudaLaunchKernelEx(&c, spin, out, ns, rounds, longs));
}
static std::vector<stamp> get(stamp* d, int n) { std::vector<stamp> v(n); OK(cudaMemcpy(v.data(), d, n * sizeof(stamp), cudaMemcpyDeviceToHost)); return v; }

__global__ void __cluster_dims__(2, 1, 1) flat(stamp* out, u64 ns) {
  extern __shared__ char pad[];
  int id = blockIdx.y * gridDim.x + blockIdx.x; u64 t = now();
  if (threadIdx.x == 0) { out[id].start = t; out[id].sm = smid(); }
  while (now() - t < ns) __nanosleep(100);
  if (threadIdx.x == 0) out[id].end = now();
}
int main() {
  OK(cudaFuncSetAttribute(spin, cudaFuncAttributeMaxDynamicSharedMemorySize, 208 * 1024));
  OK(cudaFuncSetAttribute(flat, cudaFuncAttributeMaxDynamicSharedMemorySize, 208 * 1024));
  int lo, hi; OK(cudaDeviceGetStreamPriorityRange(&lo, &hi));
  cudaStream_t a, b, bp; OK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking)); OK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking)); OK(cudaStreamCreateWithPriority(&bp, cudaStreamNonBlocking, hi));
  stamp *x, *y, *z; OK(cudaMalloc(&x, 4096 * sizeof(stamp))); OK(cudaMalloc(&y, 4096 * sizeof(stamp))); OK(cudaMalloc(&z, 4096 * sizeof(stamp)));
  const u64 T = 40000;
  auto wait = [](u64 us) { timespec t = {0, (long)us * 1000}; nanosleep(&t, 0); };
  launch(132, 384, 204800, 2, a, x, T, 1, 0); launch(8, 512, 102400, 1, b, y, T, 1, 0); OK(cudaDeviceSynchronize());
  for (int held : {3, 9, 16}) {
    launch(held, 512, 102400, 1, b, y, 1500000, 1, 0); wait(100);
    flat<<<dim3(2, 66), 384, 204800, a>>>(x, T); OK(cudaDeviceSynchronize()); auto v = get(x, 132);
    u64 t0 = ~0ull; for (auto& s : v) t0 = std::min(t0, s.start);
    printf("grid 2x66, held %d: late y:", held); for (int i = 0; i < 66; i++) if (v[2 * i].start - t0 > T / 2) printf(" %d", i); printf("\n");
  }
  for (bool spread : {false, true}) for (int n : {4, 8, 12, 16, 24, 32}) {
    launch(n, 640, 106496, 4, a, x, T, 1, 0, spread); OK(cudaDeviceSynchronize()); auto v = get(x, n);
    printf("idle: clusters of 4, spread %d, %d:", spread, n); for (auto& s : v) printf(" %d", s.sm); printf("\n");
  }
  printf("# held by clusters of 4 (spread): clusters of 2 late\n");
  for (int n : {4, 8, 12, 16, 24, 32}) {
    launch(n, 640, 106496, 4, b, y, 1500000, 1, 0, true); wait(100);
    launch(132, 384, 204800, 2, a, x, T, 2, 124); OK(cudaDeviceSynchronize()); auto v = get(x, 132);
    u64 t0 = ~0ull, t1 = 0; for (auto& s : v) { t0 = std::min(t0, s.start); t1 = std::max(t1, s.end); }
    int late = 0; for (int i = 0; i < 132; i += 2) late += v[i].start - t0 > T / 2;
    printf("held %d: late %d, total %.2f T\n", n, late, (t1 - t0) / (double)T);
  }
  printf("# tail: G1 (66 clusters of 2, X of T, others 3T); C of N in clusters of 4 (spread) for 6T on another stream; G2 behind G1 (2T)\n");
  for (int prio : {0, 1}) for (int X : {2, 4, 8, 12, 16, 33, 62}) for (int n : {4, 8, 16, 24}) {
    launch(132, 384, 204800, 2, a, x, T, 3, 132 - 2 * X); wait(15);
    launch(n, 640, 106496, 4, prio ? bp : b, y, 6 * T, 1, 0, true);
    launch(132, 384, 204800, 2, a, z, T, 2, 132);
    OK(cudaDeviceSynchronize()); auto g1 = get(x, 132), c = get(y, n), g2 = get(z, 132);
    u64 t0 = ~0ull; for (auto& s : g1) t0 = std::min(t0, s.start);
    u64 f2 = ~0ull, l2 = 0; for (auto& s : g2) { f2 = std::min(f2, s.start); l2 = std::max(l2, s.end); }
    int late = 0; for (int i = 0; i < 132; i += 2) late += g2[i].start - f2 > T / 2;
    printf("prio %d X %d N %d: G2 %.2f..%.2f late %d; C at", prio, X, n, (double)(f2 - t0) / T, (double)(l2 - t0) / T, late);
    for (int i = 0; i < n; i += 4) printf(" %.2f", ((double)c[i].start - (double)t0) / T);
    printf(" on"); for (auto& q : c) printf(" %d", q.sm); printf("\n");
  }
}
