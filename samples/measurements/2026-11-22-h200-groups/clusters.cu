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
static void launch(int grid, int threads, int shared, int cluster, cudaStream_t s, stamp* out, u64 ns, int rounds, int longs) {
  cudaLaunchConfig_t c = {}; c.gridDim = grid; c.blockDim = threads; c.dynamicSmemBytes = shared; c.stream = s;
  cudaLaunchAttribute a; a.id = cudaLaunchAttributeClusterDimension; a.val.clusterDim.x = cluster; a.val.clusterDim.y = a.val.clusterDim.z = 1;
  if (cluster > 1) { c.attrs = &a; c.numAttrs = 1; }
  OK(cudaLaunchKernelEx(&c, spin, out, ns, rounds, longs));
}
static std::vector<stamp> get(stamp* d, int n) { std::vector<stamp> v(n); OK(cudaMemcpy(v.data(), d, n * sizeof(stamp), cudaMemcpyDeviceToHost)); return v; }
int main() {
  OK(cudaFuncSetAttribute(spin, cudaFuncAttributeMaxDynamicSharedMemorySize, 208 * 1024));
  OK(cudaFuncSetAttribute(spin, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  int lo, hi; OK(cudaDeviceGetStreamPriorityRange(&lo, &hi));
  cudaStream_t a, b, bp; OK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking)); OK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking)); OK(cudaStreamCreateWithPriority(&bp, cudaStreamNonBlocking, hi));
  stamp *x, *y, *z; OK(cudaMalloc(&x, 4096 * sizeof(stamp))); OK(cudaMalloc(&y, 4096 * sizeof(stamp))); OK(cudaMalloc(&z, 4096 * sizeof(stamp)));
  const u64 T = 40000;
  auto wait = [](u64 us) { timespec t = {0, (long)us * 1000}; nanosleep(&t, 0); };
  launch(132, 384, 204800, 2, a, x, T, 1, 0); launch(8, 512, 102400, 1, b, y, T, 1, 0); OK(cudaDeviceSynchronize());
  printf("# held: clusters of `size`, grid as fits, the last 4 clusters one round T=40us, the others two; N SMs held by a plain grid\n");
  for (int size : {1, 2, 4, 8}) for (int held : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 66, 80}) {
    int grid = size == 1 ? 132 : size == 2 ? 132 : 120;
    int longs = grid - 4 * size;
    for (int rep = 0; rep < 2; rep++) {
      if (held) { launch(held, 512, 102400, 1, b, y, 1500000, 1, 0); wait(100); }
      launch(grid, 384, 204800, size, a, x, T, 2, longs);
      OK(cudaStreamSynchronize(a)); auto v = get(x, grid);
      OK(cudaDeviceSynchronize());
      std::vector<stamp> h; if (held) h = get(y, held);
      u64 t0 = ~0ull, t1 = 0; for (auto& s : v) { t0 = std::min(t0, s.start); t1 = std::max(t1, s.end); }
      int late = 0; std::string ids; u64 gap = 0; double spread = 0;
      for (int i = 0; i < grid; i += size) if (v[i].start - t0 > T / 2) {
        late++; if (late <= 12) { char q[64]; snprintf(q, 64, " %d@%.2f", i / size, (v[i].start - t0) / (double)T); ids += q; }
        u64 before = 0; for (auto& s : v) if (s.sm == v[i].sm && s.end <= v[i].start) before = std::max(before, s.end);
        if (before) gap = std::max(gap, v[i].start - before);
      } else spread = std::max(spread, (double)(v[i].start - t0));
      printf("size %d held %d rep %d: late %d total %.3f T, first wave within %.1f us, gap %.1f us;%s |", size, held, rep, late, (t1 - t0) / (double)T, spread / 1e3, gap / 1e3, ids.c_str());
      std::vector<int> sms; for (auto& s : h) sms.push_back(s.sm); std::sort(sms.begin(), sms.end());
      if (rep == 0 && size == 2) for (int s : sms) printf(" %d", s);
      printf("\n");
    }
  }
  printf("# order: SMs of a cluster grid of 132, by index\n");
  for (int size : {2, 4, 8}) { launch(size == 2 ? 132 : 120, 384, 204800, size, a, x, T, 1, 0); OK(cudaDeviceSynchronize()); auto v = get(x, size == 2 ? 132 : 120); printf("size %d:", size); for (auto& s : v) printf(" %d", s.sm); printf("\n"); }
  printf("# plain grids on an empty GPU: the set of SMs\n");
  for (int n = 1; n <= 132; n += n < 40 ? 1 : 4) { launch(n, 512, 102400, 1, a, x, T, 1, 0); OK(cudaDeviceSynchronize()); auto v = get(x, n); std::vector<int> s; for (auto& q : v) s.push_back(q.sm); std::sort(s.begin(), s.end()); printf("plain %d:", n); for (int q : s) printf(" %d", q); printf("\n"); }
  printf("# tail: G1 (66 clusters, X short ones of T, others 3T), on another stream C of N plain workgroups for 6T, G2 behind G1 (66 clusters, 2T)\n");
  for (int prio : {0, 1}) for (int X : {2, 4, 8, 16, 33, 62}) for (int n : {2, 4, 8, 16, 24}) {
    launch(132, 384, 204800, 2, a, x, T, 3, 132 - 2 * X); wait(15);
    launch(n, 640, 106496, 1, prio ? bp : b, y, 6 * T, 1, 0);
    launch(132, 384, 204800, 2, a, z, T, 2, 132);
    OK(cudaDeviceSynchronize()); auto g1 = get(x, 132), c = get(y, n), g2 = get(z, 132);
    u64 t0 = ~0ull; for (auto& s : g1) t0 = std::min(t0, s.start);
    u64 f2 = ~0ull, l2 = 0; for (auto& s : g2) { f2 = std::min(f2, s.start); l2 = std::max(l2, s.end); }
    u64 fc = ~0ull, lc = 0; for (auto& s : c) { fc = std::min(fc, s.start); lc = std::max(lc, s.start); }
    int late = 0; for (int i = 0; i < 132; i += 2) late += g2[i].start - f2 > T / 2;
    printf("prio %d X %d N %d: C starts %.2f..%.2f, G2 %.2f..%.2f late %d; C on", prio, X, n, (double)(fc - t0) / T, (double)(lc - t0) / T, (double)(f2 - t0) / T, (double)(l2 - t0) / T, late);
    std::vector<int> s; for (auto& q : c) s.push_back(q.sm); std::sort(s.begin(), s.end()); for (int q : s) printf(" %d", q); printf("\n");
  }
}
