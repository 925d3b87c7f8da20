// The mathematics of the book, in the reader's browser.
//
// Pure functions on plain arrays: a vector is an array of numbers, a matrix an array of rows.
// Nothing here touches the page. The browser tests compare every function with Python.

const core = (() => {
  // ---- small linear algebra ------------------------------------------------------------

  const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
  const apply = (A, v) => A.map((row) => dot(row, v));
  const zeros = (rows, columns) => Array.from({ length: rows }, () => new Array(columns).fill(0));
  const largest = (v) => v.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
  const distance = (a, b) => largest(a.map((x, i) => x - b[i]));

  function product(A, B) {
    const C = zeros(A.length, B[0].length);
    A.forEach((row, i) =>
      row.forEach((a, k) => {
        if (a !== 0) for (let j = 0; j < C[i].length; j++) C[i][j] += a * B[k][j];
      }),
    );
    return C;
  }

  // A x = b by Gaussian elimination with partial pivoting.
  function solve(A, b) {
    const rows = A.map((row, i) => [...row, b[i]]);
    const size = b.length;
    for (let k = 0; k < size; k++) {
      let pivot = k;
      for (let i = k + 1; i < size; i++) {
        if (Math.abs(rows[i][k]) > Math.abs(rows[pivot][k])) pivot = i;
      }
      if (rows[pivot][k] === 0) throw new RangeError("solve: the matrix is singular");
      [rows[k], rows[pivot]] = [rows[pivot], rows[k]];
      for (let i = k + 1; i < size; i++) {
        const factor = rows[i][k] / rows[k][k];
        for (let j = k; j <= size; j++) rows[i][j] -= factor * rows[k][j];
      }
    }
    const x = new Array(size).fill(0);
    for (let i = size - 1; i >= 0; i--) {
      let rest = rows[i][size];
      for (let j = i + 1; j < size; j++) rest -= rows[i][j] * x[j];
      x[i] = rest / rows[i][i];
    }
    return x;
  }

  // ---- chains and contexts -------------------------------------------------------------

  // v = (I - gamma P)^(-1) r
  function values(P, r, gamma) {
    const A = P.map((row, i) => row.map((p, j) => (i === j ? 1 : 0) - gamma * p));
    return solve(A, r);
  }

  // mu P = mu by the elimination of Grassmann, Taksar and Heyman: no subtraction, so no
  // cancellation, however nearly the chain falls apart. Where a product leaves the range of
  // floats, an error: what is filled in from it would be wrong. (Python goes on in logarithms.)
  function stationary(P) {
    const tiny = 2 ** -1022;
    const tooSmall = () => new RangeError("stationary: the probabilities are too small for floats");
    const A = P.map((row) => [...row]);
    const size = A.length;
    for (let k = size - 1; k > 0; k--) {
      let leave = 0;
      for (let j = 0; j < k; j++) leave += A[k][j];
      for (let i = 0; i < k; i++) {
        A[i][k] /= leave;
        for (let j = 0; j < k; j++) {
          const via = A[i][k] * A[k][j];
          if (via < tiny && A[i][k] > 0 && A[k][j] > 0) throw tooSmall();
          A[i][j] += via;
        }
      }
    }
    let mu = [1];
    for (let k = 1; k < size; k++) {
      let mass = 0;
      for (let i = 0; i < k; i++) mass += mu[i] * A[i][k];
      const total = 1 + mass; // each time: the ratios of two masses can exceed any number
      mu = [...mu, mass].map((m) => m / total);
    }
    if (!mu.every((m) => m >= tiny)) throw tooSmall();
    return mu;
  }

  // splitmix32: 32 bits of state, one addition and one mixing function a number. The same
  // numbers come from ictd_lib.figures.sampling, so a seed means one trajectory in both.
  function generator(seed) {
    let state = seed >>> 0;
    return () => {
      state = (state + 0x9e3779b9) >>> 0;
      let z = state;
      z = Math.imul(z ^ (z >>> 16), 0x21f0aaad);
      z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
      return ((z ^ (z >>> 15)) >>> 0) / 4294967296;
    };
  }

  // The first index whose cumulative probability exceeds u.
  function draw(p, u) {
    let cumulative = 0;
    let last = 0;
    for (let i = 0; i < p.length; i++) {
      if (p[i] > 0) last = i;
      cumulative += p[i];
      if (u < cumulative) return i;
    }
    return last; // the row sums to 1 only up to rounding
  }

  // tau_n = (S_0, R_1, S_1, ..., R_n, S_n) with R_{k} = r(S_{k-1}).
  function sampleContext(P, r, start, n, seed) {
    const next = generator(seed);
    const states = [draw(start, next())];
    for (let k = 0; k < n; k++) states.push(draw(P[states[k]], next()));
    return { states, rewards: states.slice(0, n).map((s) => r[s]) };
  }

  // What a context says of each state: N(s) = how often it was left, the mean reward there,
  // and the empirical transitions (a row of zeros where N(s) = 0).
  function summarise({ states, rewards }, size) {
    const visits = new Array(size).fill(0);
    const meanReward = new Array(size).fill(0);
    const transitions = zeros(size, size);
    rewards.forEach((reward, k) => {
      visits[states[k]] += 1;
      meanReward[states[k]] += reward;
      transitions[states[k]][states[k + 1]] += 1;
    });
    visits.forEach((N, s) => {
      if (N === 0) return;
      meanReward[s] /= N;
      transitions[s] = transitions[s].map((count) => count / N);
    });
    return { visits, meanReward, transitions };
  }

  // ---- the kernel ----------------------------------------------------------------------

  // g(s, s') = sharpness <x(s), x(s')>; the row is the query, the column the source.
  const scores = (X, sharpness) => X.map((x) => X.map((y) => sharpness * dot(x, y)));
  const oneHot = (size) => zeros(size, size).map((row, s) => row.map((_, j) => (s === j ? 1 : 0)));

  // weight_i e^{z_i} / sum_m weight_m e^{z_m}, shifted by the largest score that counts:
  // finite for scores of any size.
  function softmax(z, weight) {
    let top = -Infinity;
    z.forEach((x, i) => {
      if (!weight || weight[i] > 0) top = Math.max(top, x);
    });
    const e = z.map((x, i) => {
      const w = weight ? weight[i] : 1;
      return w > 0 ? w * Math.exp(x - top) : 0;
    });
    const total = e.reduce((a, b) => a + b, 0);
    return e.map((x) => x / total);
  }

  // M_n(s, s') = sum_k K(S_{k-1}, s) 1{S_{k-1} = s'}: visits N(s') instead of n sources.
  const empiricalKernel = (G, visits) => G.map((row) => softmax(row, visits));
  // M_pi(s, s') = mu(s') e^{g(s, s')} / sum_u mu(u) e^{g(s, u)}
  const populationKernel = (G, mu) => G.map((row) => softmax(row, mu));

  // ---- weighted softmax TD -------------------------------------------------------------

  // One layer in the collapsed form, v + alpha (M r + gamma M P v - M v) = v + alpha M delta,
  // where delta(s) is the mean TD error over the visits of s.
  function layer(v, { kernel, transitions, meanReward }, gamma, alpha) {
    const ahead = apply(transitions, v);
    const delta = meanReward.map((r, s) => r + gamma * ahead[s] - v[s]);
    return apply(kernel, delta).map((step, s) => v[s] + alpha * step);
  }

  // All iterates v_0 = 0, v_1, ..., v_steps. A run whose values pass `bound` stops there and
  // says so: { iteration, size }. Nothing that it returns is ever infinite or NaN.
  function iterate(model, gamma, alpha, steps, bound = 1e100) {
    const iterates = [new Array(model.kernel.length).fill(0)];
    for (let t = 1; t <= steps; t++) {
      const v = layer(iterates[t - 1], model, gamma, alpha);
      const size = largest(v);
      if (!(size <= bound)) return { iterates, diverged: { iteration: t, size } };
      iterates.push(v);
    }
    return { iterates, diverged: null };
  }

  // The same, as the equation is written: a weight for each of the n sources.
  //   delta_k = R_k + gamma v(S_k) - v(S_{k-1})
  //   v(s) <- v(s) + alpha sum_k delta_k K(S_{k-1}, s)
  function iterateLiteral({ states, rewards }, G, gamma, alpha, steps) {
    const sources = states.slice(0, rewards.length);
    const K = G.map((row) => softmax(sources.map((source) => row[source])));
    const iterates = [new Array(G.length).fill(0)];
    for (let t = 1; t <= steps; t++) {
      const v = iterates[t - 1];
      const delta = rewards.map((R, k) => R + gamma * v[states[k + 1]] - v[states[k]]);
      iterates.push(K.map((weights, s) => v[s] + alpha * dot(weights, delta)));
    }
    return iterates;
  }

  // (I - gamma P_n)^(-1) r over the states that the context left: what depth converges to.
  // null elsewhere, and everywhere if the context ends in a state that it never left.
  function certaintyEquivalence({ visits, meanReward, transitions }, gamma) {
    const seen = visits.map((N, s) => (N > 0 ? s : -1)).filter((s) => s >= 0);
    const limit = new Array(visits.length).fill(null);
    const closed = seen.every((s) => transitions[s].every((p, j) => p === 0 || visits[j] > 0));
    if (!closed) return limit;
    const P = seen.map((s) => seen.map((j) => transitions[s][j]));
    const v = values(P, seen.map((s) => meanReward[s]), gamma);
    seen.forEach((s, i) => (limit[s] = v[i]));
    return limit;
  }

  return {
    dot, apply, product, zeros, largest, distance, solve, values, stationary, generator, draw,
    sampleContext, summarise, scores, oneHot, softmax, empiricalKernel, populationKernel, layer,
    iterate, iterateLiteral, certaintyEquivalence,
  };
})();
