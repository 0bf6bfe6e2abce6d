#include <cuda_runtime.h>
#include <stdint.h>
__global__ void probe(uint32_t *sm, uint64_t *at, int us) {
  extern __shared__ char big[];
  if (threadIdx.x == 0) {
    uint32_t s; asm volatile("mov.u32 %0, %%smid;" : "=r"(s));
    uint64_t t; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    sm[blockIdx.x] = s; at[blockIdx.x] = t;
    uint64_t n; do { asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(n)); } while (n - t < (uint64_t)us * 1000);
    big[0] = 1;
  }
}
extern "C" int launch(void *sm, void *at, int us, void *stream) {
  cudaFuncSetAttribute(probe, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 * 1024);
  probe<<<132, 32, 200 * 1024, (cudaStream_t)stream>>>((uint32_t *)sm, (uint64_t *)at, us);
  return (int)cudaGetLastError();
}
