// Permutations of a range as NumPy's `Generator.shuffle` makes them with SFC64: the same bits in a quarter of the time.
#include <cstdint>
#include <cstring>
#include <vector>

struct SFC64 {
  uint64_t a, b, c, counter, has_half, half;
  uint64_t next() {
    const uint64_t found = a + b + counter++;
    a = b ^ (b >> 11);
    b = c + (c << 3);
    c = ((c << 24) | (c >> 40)) + found;
    return found;
  }
};

// Draw, for each place from the last down to 1, the place to exchange it with: numbers with as few bits as the place
// has, until one is not larger than the place.
static void exchanges(SFC64& generator, long n, uint32_t* with) {
  enum { MOST = 128 };
  uint32_t words[MOST];
  for (long place = n - 1; place > 0;) {
    long count = 0;  // never more words than are certainly needed
    if (generator.has_half) {
      words[count++] = (uint32_t)generator.half;
      generator.has_half = 0;
    }
    while (count + 2 <= place && count + 2 <= MOST) {
      const uint64_t both = generator.next();
      words[count++] = (uint32_t)both;
      words[count++] = (uint32_t)(generator.half = both >> 32);  // NumPy keeps it, whether it is used or not
    }
    if (count == 0) {
      const uint64_t both = generator.next();
      words[count++] = (uint32_t)both;
      generator.half = both >> 32;
      generator.has_half = 1;
    }
    for (long k = 0; k < count;) {
      const uint32_t mask = ~0u >> __builtin_clz((uint32_t)place);
      const long least = (mask >> 1) + 1;
      for (; k < count && place >= least; ++k) {
        const uint32_t found = words[k] & mask;
        with[place] = found;
        place -= found <= (uint32_t)place;
      }
    }
  }
}

// Draw `epochs` permutations of 0 ... terms - 1 for each chain and cut them into batches of `width` numbers, where
// empty places hold `terms`. `before` receives the states of the generators before the last permutation.
extern "C" void draw(
  SFC64* generators, SFC64* before, long chains, long epochs, long terms, long batch, long width, long* out, long stride
) {
  std::vector<uint32_t> order(terms), with(terms);
  for (long chain = 0; chain < chains; ++chain) {
    long* to = out + chain * stride;
    for (long epoch = 0; epoch < epochs; ++epoch) {
      if (epoch == epochs - 1) before[chain] = generators[chain];
      exchanges(generators[chain], terms, with.data());
      for (long i = 0; i < terms; ++i) order[i] = i;
      for (long i = terms - 1; i > 0; --i) {
        const uint32_t kept = order[i];
        order[i] = order[with[i]];
        order[with[i]] = kept;
      }
      for (long first = 0; first < terms; first += batch, to += width) {
        const long count = first + batch < terms ? batch : terms - first;
        for (long i = 0; i < count; ++i) to[i] = order[first + i];
        for (long i = count; i < width; ++i) to[i] = terms;
      }
    }
  }
}
