// Normals as torch's `normal_` draws them into float32 on x86, with its Mersenne twister: the same bits in a third of
// the time. Logarithm, sine and cosine are those of Cephes, with the rounding of torch's compiled avx_mathfun.h.
#include <cstdint>
#include <initializer_list>
#include <immintrin.h>

#pragma GCC optimize("O3")

typedef uint32_t Words __attribute__((vector_size(32)));
typedef float Reals __attribute__((vector_size(32)));

enum { N = 624, M = 397 };

// The beginning of what `Generator.get_state` returns.
struct State {
  uint64_t seed;
  int32_t left, seeded;
  uint64_t next, words[N];
};

static inline uint32_t twist(uint32_t u, uint32_t v) {
  return (((u & 0x80000000u) | (v & 0x7fffffffu)) >> 1) ^ (-(v & 1u) & 0x9908b0dfu);
}

static void refill(uint32_t* s) {
#pragma GCC ivdep
  for (int i = 0; i < N - M; ++i) s[i] = s[i + M] ^ twist(s[i], s[i + 1]);
  for (int start = N - M; start < N - 1; start += 227) {
    const int stop = start + 227 < N - 1 ? start + 227 : N - 1;
#pragma GCC ivdep
    for (int i = start; i < stop; ++i) s[i] = s[i + M - N] ^ twist(s[i], s[i + 1]);
  }
  s[N - 1] = s[M - 1] ^ twist(s[N - 1], s[0]);
}

static inline float uniform(uint32_t y) {
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680u;
  y ^= (y << 15) & 0xefc60000u;
  y ^= y >> 18;
  return (float)(int32_t)(y & 0xffffffu) * 0x1p-24f;
}

static inline Reals chosen(Words mask, Reals yes, Reals no) { return (Reals)((mask & (Words)yes) | (~mask & (Words)no)); }

static inline Reals splat(float x) { return Reals{x, x, x, x, x, x, x, x}; }

static inline Reals times_plus(Reals a, Reals b, Reals c) { return _mm256_fmadd_ps(a, b, c); }

static inline Reals logarithm(Reals x) {
  const Words bits = (Words)x;
  Reals e = _mm256_cvtepi32_ps((__m256i)((bits >> 23) - 0x7fu)) + 1.0f;
  x = (Reals)((bits & ~0x7f800000u) | 0x3f000000u);
  const Words small = (Words)(x < 0.707106781186547524f);
  const Reals more = (Reals)((Words)x & small);
  x = (x - 1.0f) + more;
  e = e - (Reals)((Words)splat(1.0f) & small);
  const Reals z = x * x;
  Reals y = splat(7.0376836292E-2f);
  for (float p : {-1.1514610310E-1f, 1.1676998740E-1f, -1.2420140846E-1f, 1.4249322787E-1f, -1.6668057665E-1f,
                  2.0000714765E-1f, -2.4999993993E-1f, 3.3333331174E-1f})
    y = times_plus(y, x, splat(p));
  y = times_plus(y * x, z, e * -2.12194440e-4f);
  y = times_plus(z, splat(-0.5f), y);
  return times_plus(e, splat(0.693359375f), x + y);
}

static inline void normals(float* data) {
  const Reals u1 = 1.0f - (Reals)_mm256_loadu_ps(data), u2 = _mm256_loadu_ps(data + 8);
  const Reals radius = _mm256_sqrt_ps(-2.0f * logarithm(u1));
  Reals x = 6.283185307179586f * u2;  // not negative
  const Words octant = ((Words)_mm256_cvttps_epi32(x * 1.27323954473516f) + 1u) & ~1u;
  const Reals y = _mm256_cvtepi32_ps((__m256i)octant);
  x = times_plus(y, splat(-0.78515625f), x);
  x = times_plus(y, splat(-2.4187564849853515625e-4f), x);
  x = times_plus(y, splat(-3.77489497744594108e-8f), x);
  const Reals z = x * x;
  Reals even = times_plus(splat(2.443315711809948E-005f), z, splat(-1.388731625493765E-003f));
  even = times_plus(even, z, splat(4.166664568298827E-002f));
  even = times_plus(even * z, z, z * -0.5f) + 1.0f;
  Reals odd = times_plus(splat(-1.9515295891E-4f), z, splat(8.3321608736E-3f));
  odd = times_plus(odd, z, splat(-1.6666654611E-1f));
  odd = times_plus(odd * z, x, x);
  const Words mask = (Words)((octant & 2u) == 0u);
  const Words sine_sign = (octant & 4u) << 29, cosine_sign = (~(octant - 2u) & 4u) << 29;
  const Reals sine = (Reals)((Words)chosen(mask, odd, even) ^ sine_sign);
  const Reals cosine = (Reals)((Words)chosen(mask, even, odd) ^ cosine_sign);
  _mm256_storeu_ps(data, radius * cosine + 0.0f);
  _mm256_storeu_ps(data + 8, radius * sine + 0.0f);
}

// Fill `out` with `size` numbers; `size` is at least 16.
extern "C" void draw(State* state, float* out, long size) {
  uint32_t words[N];
  for (int i = 0; i < N; ++i) words[i] = (uint32_t)state->words[i];
  long ready = state->left - 1, next = state->next;
  auto uniforms = [&](float* to, long count) {
    for (long done = 0; done < count;) {
      if (ready == 0) {
        refill(words);
        ready = N;
        next = 0;
      }
      const long some = count - done < ready ? count - done : ready;
      for (long i = 0; i < some; ++i) to[done + i] = uniform(words[next + i]);
      done += some;
      next += some;
      ready -= some;
    }
  };
  const long whole = size & ~15L;
  for (long start = 0; start < size; start += 8 * N) {  // the numbers are still in the cache when they are transformed
    const long stop = start + 8 * N < size ? start + 8 * N : size;
    uniforms(out + start, stop - start);
    for (long i = start; i + 16 <= stop; i += 16) normals(out + i);
  }
  if (whole < size) {
    uniforms(out + size - 16, 16);
    normals(out + size - 16);
  }
  state->left = (int32_t)ready + 1;
  state->next = next;
  for (int i = 0; i < N; ++i) state->words[i] = words[i];
}
