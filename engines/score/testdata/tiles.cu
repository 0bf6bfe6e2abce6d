// Times tiles of dependent GEMMs on one GPU: how far apart the workgroups of one kernel end, what waits inside of the loop
// over K cost, what a wait kernel costs, and how Stream-K compares with whole tiles. Prints one JSON row a line.
#include <cuda_fp16.h>
#include <mma.h>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
using namespace nvcuda;
#define CHECK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(e)); exit(1); } } while (0)
typedef unsigned long long u64;
__device__ __forceinline__ u64 now() { u64 t; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)); return t; }
__device__ __forceinline__ unsigned smid() { unsigned s; asm volatile("mov.u32 %0, %%smid;" : "=r"(s)); return s; }
__device__ __forceinline__ int look(const int *p) { int v; asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v; }

struct Stamp { u64 start, ready, end; unsigned sm, pad; };
struct Args {
  const half *a, *b; half *c;
  int m, n, k, splits;
  int *turn;          // serial sum over splits, one a tile
  int *post;          // semaphores of this kernel's tiles; null: none
  const int *wait;    // semaphores to wait for; null: none
  int per;            // columns of the awaited kernel's tiles
  int need;           // posts that complete a semaphore
  int row;            // 1: one semaphore a row of tiles, 0: one a tile
  int *started; int iter;
  float *partial; int *flags; // Stream-K
  int blocks;
  Stamp *stamp;
};
const int TK = 32;

// Waits: 0 none, 1 before loads, 2 after the loads of B, 3 before the loop only, 4 as cuSync's Conv2DTileSync. STREAMK: equal shares of all iterations.
template <int TM, int TN, int WM, int WN, int WAIT, bool STREAMK>
__global__ void __launch_bounds__(256, 2) gemm(Args g) {
  const int LDA = TK + 8, LDB = TN + 8;
  __shared__ half sa[2][TM * LDA];
  __shared__ half sb[2][TK * LDB];
  const int tid = threadIdx.x, warp = tid / 32;
  const int FM = TM / WM / 16, FN = TN / WN / 16;
  const int wr = warp / WN, wc = warp % WN;
  u64 t0 = 0, ready = 0;
  if (tid == 0) { t0 = now(); if (g.started && blockIdx.x == 0) atomicExch(g.started, g.iter); }
  const int rows = (g.m + TM - 1) / TM, cols = g.n / TN, iters = g.k / TK;
  int from, to;
  if (STREAMK) { long all = (long)rows * cols * iters; from = all * blockIdx.x / g.blocks; to = all * (blockIdx.x + 1) / g.blocks; }
  else { int tile = blockIdx.x % (rows * cols), s = blockIdx.x / (rows * cols); from = tile * iters + iters * s / g.splits; to = tile * iters + iters * (s + 1) / g.splits; }
  while (from < to) {
    const int tile = from / iters, row = tile / cols, col = tile % cols;
    const int k0 = from % iters, k1 = min(iters, k0 + to - from);
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[FM][FN];
    for (int i = 0; i < FM; i++) for (int j = 0; j < FN; j++) wmma::fill_fragment(acc[i][j], 0.f);
    const int NA = TM * TK / 8 / 256, NB = TK * TN / 8 / 256;
    int4 ra[NA], rb[NB];
    auto loadA = [&](int it) {
#pragma unroll
      for (int i = 0; i < NA; i++) { int v = tid + i * 256, r = v / (TK / 8), c = v % (TK / 8); ra[i] = __ldcg((const int4 *)(g.a + (size_t)(row * TM + r) * g.k + it * TK + c * 8)); }
    };
    auto loadB = [&](int it) {
#pragma unroll
      for (int i = 0; i < NB; i++) { int v = tid + i * 256, r = v / (TN / 8), c = v % (TN / 8); rb[i] = __ldcg((const int4 *)(g.b + (size_t)(it * TK + r) * g.n + col * TN + c * 8)); }
    };
    auto store = [&](int s) {
#pragma unroll
      for (int i = 0; i < NA; i++) { int v = tid + i * 256, r = v / (TK / 8), c = v % (TK / 8); *(int4 *)(&sa[s][r * LDA + c * 8]) = ra[i]; }
#pragma unroll
      for (int i = 0; i < NB; i++) { int v = tid + i * 256, r = v / (TN / 8), c = v % (TN / 8); *(int4 *)(&sb[s][r * LDB + c * 8]) = rb[i]; }
    };
    auto waitFor = [&](int it) {
      if (tid == 0) { const int *p = g.wait + (g.row ? row : row * (g.k / g.per) + it * TK / g.per); while (look(p) < g.need * g.iter) {} }
      __syncthreads();
    };
    auto fetch = [&](int it, bool first) {
      bool due = WAIT && g.wait && (first || (WAIT < 3 && !g.row && it * TK % g.per == 0) || (WAIT == 4 && it * TK / g.per % 9 == 0));
      if (WAIT == 2) loadB(it);
      if (due) { __syncthreads(); waitFor(it); }
      loadA(it);
      if (WAIT != 2) loadB(it);
    };
    fetch(k0, true);
    if (tid == 0 && !ready) ready = now();
    store(0);
    __syncthreads();
    for (int it = k0, s = 0; it < k1; it++, s ^= 1) {
      if (it + 1 < k1) fetch(it + 1, false);
#pragma unroll
      for (int kk = 0; kk < TK; kk += 16) {
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb[FN];
#pragma unroll
        for (int j = 0; j < FN; j++) wmma::load_matrix_sync(fb[j], &sb[s][kk * LDB + (wc * FN + j) * 16], LDB);
#pragma unroll
        for (int i = 0; i < FM; i++) {
          wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
          wmma::load_matrix_sync(fa, &sa[s][(wr * FM + i) * 16 * LDA + kk], LDA);
#pragma unroll
          for (int j = 0; j < FN; j++) wmma::mma_sync(acc[i][j], fa, fb[j], acc[i][j]);
        }
      }
      if (it + 1 < k1) store(s ^ 1);
      __syncthreads();
    }
    const bool part = k0 > 0 || k1 < iters;
    if (STREAMK && part && k0 > 0) { // not the first part of the tile: hand the sums over
      float *p = g.partial + (size_t)blockIdx.x * TM * TN;
      for (int i = 0; i < FM; i++) for (int j = 0; j < FN; j++) wmma::store_matrix_sync(p + (size_t)((wr * FM + i) * 16) * TN + (wc * FN + j) * 16, acc[i][j], TN, wmma::mem_row_major);
      __threadfence(); __syncthreads();
      if (tid == 0) atomicExch(g.flags + blockIdx.x, g.iter);
    } else {
      if (STREAMK && part) {
        long all = (long)rows * cols * iters; long end = (long)(tile + 1) * iters;
        for (int o = blockIdx.x + 1; o < g.blocks && all * o / g.blocks < end; o++) {
          if (tid == 0) while (look(g.flags + o) < g.iter) {}
          __syncthreads();
          float *p = g.partial + (size_t)o * TM * TN;
          for (int i = 0; i < FM; i++) for (int j = 0; j < FN; j++) {
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> f;
            wmma::load_matrix_sync(f, p + (size_t)((wr * FM + i) * 16) * TN + (wc * FN + j) * 16, TN, wmma::mem_row_major);
            for (int e = 0; e < f.num_elements; e++) acc[i][j].x[e] += f.x[e];
          }
        }
      }
      const int share = blockIdx.x / (rows * cols);
      if (!STREAMK && g.splits > 1) {
        if (tid == 0) while (look(g.turn + tile) < share) {}
        __syncthreads();
      }
      for (int i = 0; i < FM; i++) for (int j = 0; j < FN; j++) {
        wmma::fragment<wmma::accumulator, 16, 16, 16, half> f;
        half *p = g.c + (size_t)(row * TM + (wr * FM + i) * 16) * g.n + col * TN + (wc * FN + j) * 16;
        if (!STREAMK && g.splits > 1 && share > 0) { wmma::load_matrix_sync(f, p, g.n, wmma::mem_row_major); for (int e = 0; e < f.num_elements; e++) f.x[e] = __hadd(f.x[e], __float2half(acc[i][j].x[e])); }
        else for (int e = 0; e < f.num_elements; e++) f.x[e] = __float2half(acc[i][j].x[e]);
        wmma::store_matrix_sync(p, f, g.n, wmma::mem_row_major);
      }
      __threadfence(); __syncthreads();
      if (tid == 0) {
        if (!STREAMK && g.splits > 1) atomicExch(g.turn + tile, (share + 1) % g.splits);
        if (g.post) atomicAdd(g.post + (g.row ? row : tile), 1);
      }
    }
    from += k1 - k0;
  }
  if (tid == 0 && g.stamp) g.stamp[blockIdx.x] = Stamp{t0, ready, now(), smid(), 0};
}
__global__ void waitKernel(const int *p, int v) { while (look(p) < v) {} }
__global__ void nothing() {}
__global__ void stream(const int4 *p, size_t each, int *sink, Stamp *stamp) { // each: int4 a workgroup
  u64 t0 = now();
  const int4 *q = p + blockIdx.x * each; int4 s = {0, 0, 0, 0};
  for (size_t i = threadIdx.x; i < each; i += blockDim.x * 4) {
    int4 v[4];
#pragma unroll
    for (int j = 0; j < 4; j++) v[j] = __ldcs(q + i + j * blockDim.x);
#pragma unroll
    for (int j = 0; j < 4; j++) { s.x ^= v[j].x; s.y ^= v[j].y; s.z ^= v[j].z; s.w ^= v[j].w; }
  }
  if ((s.x ^ s.y ^ s.z ^ s.w) == 0x12345678) *sink = 1;
  __syncthreads();
  if (threadIdx.x == 0) stamp[blockIdx.x] = Stamp{t0, t0, now(), smid(), 0};
}

static double hostNow() { return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
static double med(std::vector<double> v) { std::sort(v.begin(), v.end()); return v[v.size() / 2]; }
static half *hbuf(size_t n) { half *p; CHECK(cudaMalloc(&p, n * 2)); CHECK(cudaMemset(p, 0, n * 2)); return p; }
static int *ibuf(size_t n) { int *p; CHECK(cudaMalloc(&p, n * 4)); CHECK(cudaMemset(p, 0, n * 4)); return p; }
static Stamp *sbuf(size_t n) { Stamp *p; CHECK(cudaMalloc(&p, n * sizeof(Stamp))); return p; }
static std::vector<Stamp> got(Stamp *p, int n) { std::vector<Stamp> v(n); CHECK(cudaMemcpy(v.data(), p, n * sizeof(Stamp), cudaMemcpyDeviceToHost)); return v; }

// How far workgroups that start together end apart: a workgroup's time over the mean of its launch.
static void spread(const char *what, int blocks, double mb, std::vector<std::vector<Stamp>> runs) {
  std::vector<double> rel, last, first, us; std::vector<double> bySM(256, 0); std::vector<int> n(256, 0);
  for (auto &r : runs) {
    double mean = 0; for (auto &s : r) mean += double(s.end - s.start); mean /= r.size();
    double lo = 1e18, hi = 0;
    for (auto &s : r) { double d = (s.end - s.start) / mean; rel.push_back(d); lo = std::min(lo, d); hi = std::max(hi, d); if (s.sm < 256) { bySM[s.sm] += d; n[s.sm]++; } }
    last.push_back(hi); first.push_back(lo); us.push_back(mean / 1e3);
  }
  std::sort(rel.begin(), rel.end());
  double within = 0, m2 = 0; int sms = 0;
  for (int i = 0; i < 256; i++) if (n[i]) { double d = bySM[i] / n[i] - 1; m2 += d * d; sms++; }
  for (double d : rel) within += (d - 1) * (d - 1);
  printf("{\"row\": \"spread\", \"kernel\": \"%s\", \"workgroups\": %d, \"mb\": %.1f, \"mean_us\": %.1f, \"first\": %.4f, \"p10\": %.4f, \"p50\": %.4f, \"p90\": %.4f, \"last\": %.4f, \"sd\": %.4f, \"sd_of_cu_means\": %.4f}\n", what, blocks, mb, med(us), med(first), rel[rel.size() / 10], rel[rel.size() / 2], rel[rel.size() * 9 / 10], med(last), sqrt(within / rel.size()), sqrt(m2 / std::max(1, sms)));
  fflush(stdout);
}

template <int TM, int TN, int WM, int WN>
struct Pair {
  int m, h, f, split1, split2; // x[m,h] w1[h,f] then [m,f] w2[f,h]
  half *x, *w1, *y, *w2, *z; int *turn1, *turn2, *sem, *started, *flags; float *partial; Stamp *s1, *s2; cudaStream_t a, b; int iter = 0;
  int count[2] = {0, 0};
  Pair(int m, int h, int f, int split1, int split2) : m(m), h(h), f(f), split1(split1), split2(split2) {
    int mm = (m + TM - 1) / TM * TM;
    x = hbuf((size_t)mm * h); w1 = hbuf((size_t)h * f); y = hbuf((size_t)mm * f); w2 = hbuf((size_t)f * h); z = hbuf((size_t)mm * h);
    turn1 = ibuf(65536); turn2 = ibuf(65536); sem = ibuf(65536); started = ibuf(1); flags = ibuf(4096); CHECK(cudaMalloc(&partial, (size_t)1024 * TM * TN * 4));
    s1 = sbuf(8192); s2 = sbuf(8192); CHECK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking)); CHECK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
  }
  ~Pair() { cudaFree(x); cudaFree(w1); cudaFree(y); cudaFree(w2); cudaFree(z); cudaFree(turn1); cudaFree(turn2); cudaFree(sem); cudaFree(started); cudaFree(flags); cudaFree(partial); cudaFree(s1); cudaFree(s2); cudaStreamDestroy(a); cudaStreamDestroy(b); }
  int rows() { return (m + TM - 1) / TM; }
  int g1() { return rows() * (f / TN) * split1; }
  int g2() { return rows() * (h / TN) * split2; }
  Args first(int row) { return Args{x, w1, y, m, f, h, split1, turn1, nullptr, nullptr, TN, 0, row, nullptr, iter, partial, flags, 0, s1}; }
  Args second(int row) { return Args{y, w2, z, m, h, f, split2, turn2, nullptr, nullptr, TN, 0, row, nullptr, iter, partial, flags, 0, s2}; }
  // mode: 0 two syncs, 1 one stream, 2 row, 3 tile, 4 tile with B first, 5 row with B first, 6 Stream-K
  double once(int mode, bool waitkernel, int sk) {
    iter++;
    int row = mode == 2 || mode == 5;
    Args p = first(row), c = second(row);
    double t = hostNow();
    if (mode == 6) {
      p.blocks = c.blocks = sk;
      gemm<TM, TN, WM, WN, 0, true><<<sk, 256, 0, a>>>(p);
      iter++; c.iter = iter;
      gemm<TM, TN, WM, WN, 0, true><<<sk, 256, 0, a>>>(c);
      CHECK(cudaDeviceSynchronize());
      return hostNow() - t;
    }
    if (mode <= 1) {
      gemm<TM, TN, WM, WN, 0, false><<<g1(), 256, 0, a>>>(p);
      if (mode == 0) CHECK(cudaStreamSynchronize(a));
      gemm<TM, TN, WM, WN, 0, false><<<g2(), 256, 0, a>>>(c);
      CHECK(cudaDeviceSynchronize());
      return hostNow() - t;
    }
    p.post = sem + (row ? 32768 : 0); c.wait = p.post; p.started = started;
    c.need = row ? f / TN * split1 : split1;
    c.iter = ++count[row]; p.iter = iter;
    gemm<TM, TN, WM, WN, 0, false><<<g1(), 256, 0, a>>>(p);
    if (waitkernel) waitKernel<<<1, 1, 0, b>>>(started, iter);
    if (mode == 2 || mode == 3) gemm<TM, TN, WM, WN, 1, false><<<g2(), 256, 0, b>>>(c);
    else gemm<TM, TN, WM, WN, 2, false><<<g2(), 256, 0, b>>>(c);
    CHECK(cudaDeviceSynchronize());
    return hostNow() - t;
  }
  void measure(const char *name, int mode, bool wk, int iters, int sk = 0) {
    std::vector<double> host, g, e1, c0, c1;
    for (int i = 0; i < 10; i++) once(mode, wk, sk);
    for (int i = 0; i < iters; i++) {
      host.push_back(once(mode, wk, sk));
      if (i % 4) continue;
      int na = mode == 6 ? sk : g1(), nb = mode == 6 ? sk : g2();
      auto p = got(s1, na), c = got(s2, nb);
      u64 t0 = ~0ull, pe = 0, ce = 0, cs = ~0ull, pf = ~0ull;
      for (auto &s : p) { t0 = std::min(t0, s.start); pe = std::max(pe, s.end); pf = std::min(pf, s.end); }
      for (auto &s : c) { ce = std::max(ce, s.end); cs = std::min(cs, s.start); }
      g.push_back((ce - t0) / 1e3); e1.push_back((pe - t0) / 1e3); c0.push_back(((double)cs - (double)t0) / 1e3); c1.push_back((pf - t0) / 1e3);
    }
    printf("{\"row\": \"pair\", \"tile\": \"%dx%d\", \"m\": %d, \"h\": %d, \"f\": %d, \"splits\": [%d, %d], \"workgroups\": [%d, %d], \"mode\": \"%s\", \"wait_kernel\": %s, \"host_us\": %.2f, \"gpu_us\": %.2f, \"first_ends_us\": %.2f, \"first_tile_us\": %.2f, \"second_starts_us\": %.2f}\n", TM, TN, m, h, f, split1, split2, mode == 6 ? sk : g1(), mode == 6 ? sk : g2(), name, wk ? "true" : "false", med(host), med(g), med(e1), med(c1), med(c0));
    fflush(stdout);
  }
  void all(int iters, int sms) {
    for (int round = 0; round < 2; round++) {
      measure("two syncs", 0, false, iters);
      measure("stream", 1, false, iters);
      measure("row", 2, true, iters);
      measure("row", 2, false, iters);
      measure("row, B first", 5, false, iters);
      measure("tile", 3, true, iters);
      measure("tile", 3, false, iters);
      measure("tile, B first", 4, true, iters);
      measure("tile, B first", 4, false, iters);
      if (sms) { measure("stream-k", 6, false, iters, sms); measure("stream-k", 6, false, iters, 2 * sms); }
    }
    waits(iters);
  }
  // The second kernel alone, all semaphores posted: what the waits themselves cost.
  void waits(int iters) {
    CHECK(cudaMemset(sem, 0x3f, 65536 * 4));
    const char *names[] = {"none", "row", "tile", "tile, B first", "row, B first", "row only", "conv"};
    for (int round = 0; round < 2; round++) for (int w = 0; w < 7; w++) {
      std::vector<double> us;
      for (int i = 0; i < iters + 5; i++) {
        Args c = second(w == 1 || w == 4 || w == 5); c.wait = sem; c.need = 1; c.iter = 1;
        if (w == 0) gemm<TM, TN, WM, WN, 0, false><<<g2(), 256, 0, a>>>(c);
        else if (w <= 2) gemm<TM, TN, WM, WN, 1, false><<<g2(), 256, 0, a>>>(c);
        else if (w <= 4) gemm<TM, TN, WM, WN, 2, false><<<g2(), 256, 0, a>>>(c);
        else if (w == 5) gemm<TM, TN, WM, WN, 3, false><<<g2(), 256, 0, a>>>(c);
        else gemm<TM, TN, WM, WN, 4, false><<<g2(), 256, 0, a>>>(c);
        CHECK(cudaDeviceSynchronize());
        auto v = got(s2, g2()); u64 t0 = ~0ull, e = 0; for (auto &s : v) { t0 = std::min(t0, s.start); e = std::max(e, s.end); }
        if (i >= 5) us.push_back((e - t0) / 1e3);
      }
      printf("{\"row\": \"waits\", \"tile\": \"%dx%d\", \"m\": %d, \"k\": %d, \"n\": %d, \"splits\": %d, \"workgroups\": %d, \"waits\": \"%s\", \"in_loop\": %d, \"us\": %.2f}\n", TM, TN, m, f, h, split2, g2(), names[w], w == 2 || w == 3 ? f / TN / split2 - 1 : 0, med(us));
      fflush(stdout);
    }
  }
  void spreads(int runs) {
    std::vector<std::vector<Stamp>> a1, a2;
    for (int i = 0; i < runs; i++) { once(1, false, 0); if (i > 4) { a1.push_back(got(s1, g1())); a2.push_back(got(s2, g2())); } }
    char n1[64]; snprintf(n1, 64, "gemm %dx%d m %d k %d split %d", TM, TN, m, h, split1); spread(n1, g1(), (double)h * f * 2 / 1e6, a1);
    snprintf(n1, 64, "gemm %dx%d m %d k %d split %d", TM, TN, m, f, split2); spread(n1, g2(), (double)h * f * 2 / 1e6, a2);
  }
};

int main() {
  cudaDeviceProp d; CHECK(cudaGetDeviceProperties(&d, 0)); int sms = d.multiProcessorCount;
  printf("{\"row\": \"gpu\", \"name\": \"%s\", \"cus\": %d}\n", d.name, sms);
  { // host: an empty kernel and its end, and launches alone
    std::vector<double> l, s, ms, two, wk; cudaStream_t a, b; cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking); cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking); int *m = ibuf(16);
    for (int i = 0; i < 400; i++) {
      double t = hostNow(); nothing<<<1, 32, 0, a>>>(); double u = hostNow(); CHECK(cudaStreamSynchronize(a)); double v = hostNow(); l.push_back(u - t); s.push_back(v - t);
      t = hostNow(); cudaMemsetAsync(m, 0, 64, a); nothing<<<1, 32, 0, a>>>(); CHECK(cudaStreamSynchronize(a)); ms.push_back(hostNow() - t);
      t = hostNow(); nothing<<<1, 32, 0, a>>>(); nothing<<<1, 32, 0, a>>>(); CHECK(cudaStreamSynchronize(a)); two.push_back(hostNow() - t);
      t = hostNow(); nothing<<<1, 32, 0, a>>>(); nothing<<<1, 32, 0, b>>>(); nothing<<<1, 32, 0, b>>>(); CHECK(cudaDeviceSynchronize()); wk.push_back(hostNow() - t);
    }
    printf("{\"row\": \"host\", \"launch_us\": %.2f, \"launch_and_sync_us\": %.2f, \"memset_launch_sync_us\": %.2f, \"two_launches_sync_us\": %.2f, \"one_and_two_on_streams_us\": %.2f}\n", med(l), med(s), med(ms), med(two), med(wk));
  }
  { int4 *p; size_t bytes = (size_t)3 << 30; CHECK(cudaMalloc(&p, bytes)); CHECK(cudaMemset(p, 1, bytes)); int *sink = ibuf(1); Stamp *st = sbuf(8192);
    for (int per : {1, 2, 4}) for (int n : {sms / 4, sms / 2, sms * 3 / 4, sms, 2 * sms}) { if (n > sms && per > 1) continue;
      std::vector<std::vector<Stamp>> runs; size_t each = (size_t)(4 * per) * 1024 * 1024 / 16;
      for (int i = 0; i < 25; i++) { stream<<<n, 512>>>(p, each, sink, st); CHECK(cudaDeviceSynchronize()); if (i > 4) runs.push_back(got(st, n)); }
      spread("stream", n, n * each * 16 / 1e6, runs); }
    cudaFree(p); }
  for (int s : {1, 2, 3, 5, 11}) { Pair<64, 256, 1, 8> p(64, 12288, 6144, s, 1); p.spreads(25); }
  for (int m : {512, 2048}) { Pair<128, 128, 2, 4> p(m, 12288, 6144, 1, 1); p.spreads(15); }
  { Pair<64, 256, 1, 8> p(64, 12288, 6144, 3, 1); p.all(60, 0); }
  { Pair<64, 256, 1, 8> p(64, 12288, 6144, 5, 2); p.all(60, sms); }
  { Pair<64, 256, 1, 8> p(128, 12288, 6144, 2, 1); p.all(60, sms); }
  { Pair<64, 256, 1, 8> p(64, 3072, 1536, 3, 1); p.all(200, 0); }
  { Pair<64, 256, 1, 8> p(64, 1536, 1536, 2, 2); p.all(200, 0); }
  for (int m : {256, 512, 1024}) { Pair<128, 128, 2, 4> p(m, 12288, 6144, 1, 1); p.all(30, sms); }
  return 0;
}
