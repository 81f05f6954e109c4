// Vectors of LANES chains (2, 4 or 8), for the loops that lanes.py writes; the numbers of one chain are no vectors, and
// the compiler makes vectors of consecutive elements. A truth value is 0 or -1: no bit or all.
typedef double W __attribute__((vector_size(64)));
#define IN static inline __attribute__((always_inline))
#if LANES == 1
#pragma GCC optimize("O3")
typedef double V;
typedef long L;
#define ALL(x) {x(0)}
#define INDEPENDENT _Pragma("GCC ivdep")
#define LANE(x, l) x
#else
typedef double V __attribute__((vector_size(8 * LANES)));
typedef long L __attribute__((vector_size(8 * LANES)));
#define LANE(x, l) x[l]
#define INDEPENDENT
#if LANES == 8
#define ALL(x) {x(0), x(1), x(2), x(3), x(4), x(5), x(6), x(7)}
#elif LANES == 4
#define ALL(x) {x(0), x(1), x(2), x(3)}
#else
#define ALL(x) {x(0), x(1)}
#endif
#endif
#define EACH1(name, f) IN V name(V x) { V y; for (int l = 0; l < LANES; ++l) LANE(y, l) = f(LANE(x, l)); return y; }
#define EACH2(name, f) \
  IN V name(V a, V b) { V y; for (int l = 0; l < LANES; ++l) LANE(y, l) = f(LANE(a, l), LANE(b, l)); return y; }
#define INFINITE __builtin_inf()
#define UNDEFINED __builtin_nan("")

#if LANES == 1
IN L bits(V x) { L y; __builtin_memcpy(&y, &x, sizeof x); return y; }
IN V number(L x) { V y; __builtin_memcpy(&y, &x, sizeof x); return y; }
IN L truth(bool x) { return -(L)x; }
IN V splat(double x) { return x; }
IN L splat(long x) { return x; }
IN V V_of_L(L x) { return x; }
IN L L_of_F(V x) { return x; }
IN V F_of_V(V x) { return (float)x; }
#else
#define AT(l) x
IN L bits(V x) { return (L)x; }
IN V number(L x) { return (V)x; }
IN L truth(L x) { return x; }
IN V splat(double x) { return V ALL(AT); }
IN L splat(long x) { return L ALL(AT); }
#undef AT
IN V V_of_L(L x) { return __builtin_convertvector(x, V); }
IN L L_of_F(V x) { return __builtin_convertvector(x, L); }
// float32: operations on float64, rounded. Addition, multiplication, division and square root are then as in float32.
IN V F_of_V(V x) {
  typedef float F __attribute__((vector_size(4 * LANES)));
  return __builtin_convertvector(__builtin_convertvector(x, F), V);
}
#endif
IN V V_of_B(L x) { return V_of_L(-x); }
IN V V_of_F(V x) { return x; }
IN V F_of_L(L x) { return F_of_V(V_of_L(x)); }
IN V F_of_B(L x) { return V_of_B(x); }
IN L B_of_F(V x) { return truth(x != 0.0); }
IN L L_of_V(V x) { return L_of_F(x); }
IN L L_of_B(L x) { return -x; }
IN L B_of_V(V x) { return truth(x != 0.0); }
IN L B_of_L(L x) { return truth(x != 0); }
#if LANES == 1
// By bits: a loop with branches would not become one over vectors.
IN L where(L m, L a, L b) { return (m & a) | (~m & b); }
IN V where(L m, V a, V b) { return number(where(m, bits(a), bits(b))); }
IN L where(bool m, L a, L b) { return where(truth(m), a, b); }
IN V where(bool m, V a, V b) { return where(truth(m), a, b); }
#else
IN V where(L m, V a, V b) { return m ? a : b; }
IN L where(L m, L a, L b) { return m ? a : b; }
#endif
// NaN wins, as in torch. Only one comparison depends on the first argument, which is often the previous result.
IN V largest(V a, V b) { return where(truth(b > a) | truth(b != b), b, a); }
IN V smallest(V a, V b) { return where(truth(b < a) | truth(b != b), b, a); }
#if LANES == 1
IN void store(double* p, W x) { __builtin_memcpy(p, &x, sizeof x); }
IN W largest(W a, W b) { return (b > a) | (b != b) ? b : a; }
IN W smallest(W a, W b) { return (b < a) | (b != b) ? b : a; }
#endif
IN L largest(L a, L b) { return where(a > b, a, b); }
IN L smallest(L a, L b) { return where(a < b, a, b); }
IN V magnitude(V x) { return number(bits(x) & 0x7fffffffffffffffL); }
IN L magnitude(L x) { return where(x < 0, -x, x); }

#if __AVX512F__ && MOVES
#include <immintrin.h>
#endif
// A number of 16 bits: the first half of a float.
struct Half {
  unsigned short bits;
  operator double() const {
    const unsigned whole = (unsigned)bits << 16;
    float x;
    __builtin_memcpy(&x, &whole, sizeof x);
    return x;
  }
};
// row, put: an element of chains that are `s` numbers apart. take: the element at an index that each chain has.
#define AT(l) p[l * s]
IN V row(const double* p, long s) { return V ALL(AT); }
IN L row(const long* p, long s) { return L ALL(AT); }
#undef AT
IN void put(double* p, long s, V x) { for (int l = 0; l < LANES; ++l) p[l * s] = LANE(x, l); }
IN void put(long* p, long s, L x) { for (int l = 0; l < LANES; ++l) p[l * s] = LANE(x, l); }
#define AT(l) p[LANE(i, l)]
#if LANES == 8 && __AVX512F__ && MOVES
IN V take(const double* p, L i) { return (V)_mm512_i64gather_pd((__m512i)i, p, 8); }
#else
IN V take(const double* p, L i) { return V ALL(AT); }
#endif
IN V take(const float* p, L i) { return V ALL(AT); }
IN V take(const Half* p, L i) { return V ALL(AT); }
IN L take(const long* p, L i) { return L ALL(AT); }
#undef AT

// Turn the rows of an 8 x 8 matrix into its columns; the result may replace it.
#if __AVX512F__ && MOVES
#define EVEN(a, b) _mm512_shuffle_f64x2(a, b, 0x88)
#define ODD(a, b) _mm512_shuffle_f64x2(a, b, 0xdd)
#define TURN(k, unpack) { \
  const W a = unpack(x[0], x[1]), b = unpack(x[2], x[3]), c = unpack(x[4], x[5]), d = unpack(x[6], x[7]); \
  const W e = EVEN(a, b), f = EVEN(c, d), g = ODD(a, b), h = ODD(c, d); \
  y[k] = EVEN(e, f), y[k + 2] = EVEN(g, h), y[k + 4] = ODD(e, f), y[k + 6] = ODD(g, h); }
IN void turn(const W* from, W* y) {
  const W x[8] = {from[0], from[1], from[2], from[3], from[4], from[5], from[6], from[7]};
  TURN(0, _mm512_unpacklo_pd)
  TURN(1, _mm512_unpackhi_pd)
}
#endif

#if __AVX512F__ && MOVES
IN W eight(const double* p) { return (W)_mm512_loadu_pd(p); }
IN W eight(const float* p) { return (W)_mm512_cvtps_pd(_mm256_loadu_ps(p)); }
IN W eight(const Half* p) {
  const __m256i x = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p));
  return (W)_mm512_cvtps_pd(_mm256_castsi256_ps(_mm256_slli_epi32(x, 16)));
}
#endif
// `size` consecutive elements for each chain, from the index that the chain has.
#define AT(l) p[LANE(i, l) + j]
template <long size, class Number> IN void take_row(const Number* p, L i, V* to) {
  long j = 0;
#if LANES == 8 && __AVX512F__ && MOVES
#define AT8(l) eight(p + i[l] + j)
  for (; j + 8 <= size; j += 8) {
    const V x[8] = ALL(AT8);
    turn(x, to + j);
  }
#endif
  for (; j < size; ++j) to[j] = V ALL(AT);
}
#undef AT
#if LANES > 1
#define AT(l) p[i[l]][l]
IN V take(const V* p, L i) { return V ALL(AT); }
IN L take(const L* p, L i) { return L ALL(AT); }
#undef AT
#endif

// An index, which may count from the end, brought inside.
IN L within(L i, long size) {
  i = where(i < 0, i + size, i);
  return where(i < 0, splat(0L), where(i >= size, splat(size - 1), i));
}

EACH1(root, __builtin_sqrt)
EACH1(floor_, __builtin_floor)
EACH1(ceil_, __builtin_ceil)
EACH1(round_, __builtin_rint)
EACH1(trunc_, __builtin_trunc)
EACH1(sin_, __builtin_sin)
EACH1(cos_, __builtin_cos)
EACH1(tanh_, __builtin_tanh)
EACH1(expm1_, __builtin_expm1)
EACH1(erf_, __builtin_erf)
EACH2(power, __builtin_pow)
EACH2(atan2_, __builtin_atan2)

// e^x = 2^k e^r with |r| <= log(2) / 2, by the Taylor series of e^r: within 1.2 units in the last place. It is 0 below
// the smallest normal number, because a smaller one takes the processor a hundred cycles.
IN V exp_(V x) {
  const L none = truth(x < -708.396);
  x = where(none, splat(0.0), where(x > 710.0, splat(710.0), x));
  const V shift = splat(6755399441055744.0);  // 1.5 * 2^52: adding it rounds to an integer in the lowest bits
  const V moved = x * 1.4426950408889634 + shift, k = moved - shift;
  const V r = (x - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10;
  V y = r * 1.6059043836821613e-10 + 2.08767569878681e-09;
  y = y * r + 2.505210838544172e-08;  y = y * r + 2.755731922398589e-07;
  y = y * r + 2.7557319223985893e-06;  y = y * r + 2.48015873015873e-05;
  y = y * r + 0.0001984126984126984;  y = y * r + 0.001388888888888889;
  y = y * r + 0.008333333333333333;  y = y * r + 0.041666666666666664;
  y = y * r + 0.16666666666666666;  y = y * r + 0.5;
  y = y * r + 1.0;  y = y * r + 1.0;
  const L n = bits(moved) - bits(shift), half = n >> 1;
  return where(none, splat(0.0), y * number((half + 1023) << 52) * number((n - half + 1023) << 52));
}

// As in fdlibm: log(2^k (1 + f)) with 1 + f between sqrt(1/2) and sqrt(2).
IN V log_(V x) {
  const L small = truth(x < 2.2250738585072014e-308);
  const L all = bits(where(small, x * 18014398509481984.0, x));
  V m = number((all & 0xfffffffffffffL) | 0x3ff0000000000000L);
  const L up = truth(m > 1.4142135623730951);
  m = where(up, m * 0.5, m);
  const V k = V_of_L((all >> 52) - 1023 - up + (small & -54L));
  const V f = m - 1.0, s = f / (f + 2.0), z = s * s, half = f * f * 0.5;
  V y = splat(1.479819860511658591e-01);
  y = y * z + 1.531383769920937332e-01;  y = y * z + 1.818357216161805012e-01;  y = y * z + 2.222219843214978396e-01;
  y = y * z + 2.857142874366239149e-01;  y = y * z + 3.999999999940941908e-01;  y = y * z + 6.666666666666735130e-01;
  y = k * 6.93147180369123816490e-01 - ((half - (s * (half + y * z) + k * 1.90821492927058770002e-10)) - f);
  y = where(x > 0.0, y, where(x == 0.0, splat(-INFINITE), splat(UNDEFINED)));
  return where(truth(x == INFINITE) | truth(x != x), x, y);
}

IN V log1p_(V x) {
  const V u = x + 1.0, d = u - 1.0;
  return where(truth(d == 0.0) | truth(x == INFINITE), x, log_(u) * (x / d));
}
IN V sigmoid_(V x) { return 1.0 / (exp_(-x) + 1.0); }

// The lower factor of a symmetric matrix, n x n. Returns the first leading minor that is not positive, or 0.
template <long n> IN L cholesky(const V* a, V* l) {
  L failed = splat(0L);
  for (long j = 0; j < n; ++j) {
    V square = a[j * n + j];
    for (long k = 0; k < j; ++k) square = square - l[j * n + k] * l[j * n + k];
    failed = where(truth(failed == 0) & ~truth(square > 0.0), splat(j + 1), failed);
    const V d = l[j * n + j] = root(square);
    for (long i = j + 1; i < n; ++i) {
      V sum = a[i * n + j];
      for (long k = 0; k < j; ++k) sum = sum - l[i * n + k] * l[j * n + k];
      l[i * n + j] = sum / d;
      l[j * n + i] = splat(0.0);
    }
  }
  return failed;
}

// Replace x (n x m) by A^-1 x, where A is triangular and its element (i, k) is at a[i * down + k * right].
template <long n, long m> IN void solve(const V* a, long down, long right, bool upper, V* x) {
  for (long number = 0; number < n; ++number) {
    const long i = upper ? n - 1 - number : number;
    for (long c = 0; c < m; ++c) {
      V sum = x[i * m + c];
      for (long k = upper ? i + 1 : 0; k < (upper ? n : i); ++k) sum = sum - a[i * down + k * right] * x[k * m + c];
      x[i * m + c] = sum / a[i * down + i * right];
    }
  }
}
