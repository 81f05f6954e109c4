// The gradient of U of `TopicModel`, chain by chain, so that a chain's numbers depend on no other chain.
//
// phi is stored term by term, so that a term's probabilities in all topics are one vector, or a few: of each word that a
// document has, one row of phi is read and one row of sums is written.

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

template <class T> struct Group {
  typedef T V __attribute__((vector_size(64)));
  static constexpr long size = 64 / sizeof(T);
  typedef double D __attribute__((vector_size(size * sizeof(double)), aligned(64)));
};

template <class S, class X> static S sum(X x) {
  typedef S Half __attribute__((vector_size(sizeof x / 2)));
  Half low, high;
  std::memcpy(&low, &x, sizeof low);
  std::memcpy(&high, (char *)&x + sizeof low, sizeof high);
  low += high;
  if constexpr (sizeof low == 2 * sizeof(S))
    return low[0] + low[1];
  else
    return sum<S>(low);
}

// The first `count` numbers at an address, filled up with `other`; no number beyond them is read or written.
template <class T> static typename Group<T>::V read(const T *from, long count, T other = 1) {
  typename Group<T>::V x = other - typename Group<T>::V{};
  if (count >= Group<T>::size)
    std::memcpy(&x, from, sizeof x);
  else
    for (long i = 0; i < count; i++) x[i] = from[i];
  return x;
}

template <class T> static void write(T *to, typename Group<T>::V x, long count) {
  if (count >= Group<T>::size)
    std::memcpy(to, &x, sizeof x);
  else
    for (long i = 0; i < count; i++) to[i] = x[i];
}

template <class T> static double sum(const T *x, long count) {
  typename Group<T>::D total = {};
  for (long i = 0; i < count; i += Group<T>::size)
    total += __builtin_convertvector(read<T>(x + i, count - i, 0), typename Group<T>::D);
  return sum<double>(total);
}

// Shares x / sum(x), or softmax(log x) where the sum has too few digits; log x is t where x is at its least.
template <class T> struct Shares {
  typedef typename Group<T>::V V;
  T total, most = -std::numeric_limits<T>::infinity();
  bool usual;

  Shares(const T *t, const T *x, long count) : total(sum(x, count)), usual(total > T(1e-20) && total < T(1e30)) {
    if (usual) return;
    double sum_of_rest = 0;
    for (long i = 0; i < count; i++) most = std::fmax(most, log_x(t[i], x[i]));
    for (long i = 0; i < count; i++) sum_of_rest += std::exp(log_x(t[i], x[i]) - most);
    total = sum_of_rest;
  }

  static T log_x(T t, T x) { return t < std::log(x) ? t : std::log(x); }

  V read_at(const T *t, const T *x, long left) const {
    V share = read(x, left), at = read(t, left);
    if (!usual)
      for (long i = 0; i < left && i < Group<T>::size; i++) share[i] = std::exp(log_x(at[i], share[i]) - most);
    return share / total;
  }
};

// dU/dt from the derivative of the log likelihood with respect to log x.
template <class T, class V> static V gradient(V e, V x, V likelihood, T scale, T shape) {
  const V slope = e / (1 + e);
  return 2 * slope - 1 - slope / x * (scale * likelihood + (shape - 1));
}

template <class T>
static void gradients(long chains, long documents, long batch, long topics, long terms, long width, double scale,
                      double alpha, double beta, const T *t, const T *e, const T *x, const long *index,
                      const long *document, const int *term, const T *times, T *out, T *scratch) {
  typedef typename Group<T>::V V;
  typedef typename Group<T>::D D;
  const long size = Group<T>::size, groups = (topics + size - 1) / size, step = groups * size;
  const long dim = topics * (terms + documents), first = topics * terms;
  V *sums = (V *)scratch, *rows = sums + terms * groups, *share = rows + terms * groups, *block = share + groups;
  D *of_document = (D *)(block + topics), *total = of_document + groups;
  std::vector<Shares<T>> of_topics;
  for (long chain = 0; chain < chains; chain++, t += dim, e += dim, x += dim, out += dim) {
    std::memset(sums, 0, terms * groups * sizeof(V));
    std::memset(total, 0, groups * sizeof(D));
    std::memset(out + first, 0, topics * documents * sizeof(T));
    of_topics.clear();
    for (long k = 0; k < topics; k++) of_topics.emplace_back(t + k * terms, x + k * terms, terms);
    for (long from = 0; from < terms; from += size) {
      const long left = terms - from, count = left < size ? left : size;
      for (long k = 0; k < topics; k++)
        block[k] = of_topics[k].read_at(t + k * terms + from, x + k * terms + from, left);
      std::memset(rows + from * groups, 0, count * groups * sizeof(V));
      for (long w = 0; w < count; w++)
        for (long k = 0; k < topics; k++) ((T *)rows)[(from + w) * step + k] = ((T *)block)[k * size + w];
    }
    for (long i = 0; i < batch; i++) {
      const long row = index ? index[chain * batch + i] : i, at = first + document[row] * topics;
      const Shares<T> of_topic(t + at, x + at, topics);
      for (long g = 0; g < groups; g++)
        share[g] = of_topic.read_at(t + at + g * size, x + at + g * size, topics - g * size);
      std::memset(of_document, 0, groups * sizeof(D));
      for (long j = row * width; j < (row + 1) * width && times[j] != 0; j++) {
        const V *const of_term = rows + term[j] * groups;
        V *const target = sums + term[j] * groups;
        V product = of_term[0] * share[0];
        for (long g = 1; g < groups; g++) product += of_term[g] * share[g];
        const T p = sum<T>(product), least = std::numeric_limits<T>::min(), ratio = times[j] / (p < least ? least : p);
        for (long g = 0; g < groups; g++) {
          target[g] += ratio * share[g];
          of_document[g] += __builtin_convertvector(ratio * of_term[g], D);
        }
      }
      double words = 0;
      for (long g = 0; g < groups; g++) {
        of_document[g] *= __builtin_convertvector(share[g], D);
        total[g] += of_document[g];
        words += sum<double>(of_document[g]);
      }
      for (long k = 0; k < topics; k++) out[at + k] += ((double *)of_document)[k] - ((T *)share)[k] * words;
    }
    for (long g = 0; g < groups; g++) share[g] = __builtin_convertvector(total[g], V);
    for (long from = 0; from < terms; from += size) {
      const long left = terms - from, count = left < size ? left : size;
      for (long w = 0; w < count; w++) {
        for (long g = 0; g < groups; g++)
          sums[(from + w) * groups + g] = rows[(from + w) * groups + g] * (sums[(from + w) * groups + g] - share[g]);
        for (long k = 0; k < topics; k++) ((T *)block)[k * size + w] = ((T *)sums)[(from + w) * step + k];
      }
      for (long k = 0; k < topics; k++) {
        const long i = k * terms + from;
        write(out + i, gradient<T>(read(e + i, left), read(x + i, left), block[k], T(scale), T(beta)), left);
      }
    }
    for (long i = first; i < dim; i += size) {
      const long left = dim - i;
      const V likelihood = read(out + i, left);
      write(out + i, gradient<T>(read(e + i, left), read(x + i, left), likelihood, T(scale), T(alpha)), left);
    }
  }
}

#define FUNCTION(NAME, T)                                                                                              \
  extern "C" void NAME(long chains, long documents, long batch, long topics, long terms, long width, double scale,    \
                       double alpha, double beta, const T *t, const T *e, const T *x, const long *index,              \
                       const long *document, const int *term, const T *times, T *out, T *scratch) {                   \
    gradients(chains, documents, batch, topics, terms, width, scale, alpha, beta, t, e, x, index, document, term,     \
              times, out, scratch);                                                                                   \
  }

FUNCTION(float32, float)
FUNCTION(float64, double)
