// Chapter 6: the eigenvalues of a layer beside the unit circle, what its powers do to an error, and
// its spectral radius at every sharpness.

const spectra = (() => {
  // ---- eigenvalues -----------------------------------------------------------------------

  // Complex numbers are pairs [re, im].
  const minus = ([a, b], [c, d]) => [a - c, b - d];
  const plus = ([a, b], [c, d]) => [a + c, b + d];
  const times = ([a, b], [c, d]) => [a * c - b * d, a * d + b * c];
  const conjugate = ([a, b]) => [a, -b];
  const size = ([a, b]) => Math.hypot(a, b);
  const scale = ([a, b], x) => [a * x, b * x];
  function root([a, b]) {
    const r = Math.sqrt(Math.hypot(a, b));
    const half = Math.atan2(b, a) / 2;
    return [r * Math.cos(half), r * Math.sin(half)];
  }

  // Turns rows i and j (from column `from` on) by [c, s; -s*, c], c real.
  function turnRows(H, i, j, c, s, from) {
    for (let k = from; k < H.length; k++) {
      const [x, y] = [H[i][k], H[j][k]];
      H[i][k] = plus(scale(x, c), times(s, y));
      H[j][k] = minus(scale(y, c), times(conjugate(s), x));
    }
  }
  // The inverse turn of columns i and j (down to row `to`).
  function turnColumns(H, i, j, c, s, to) {
    for (let k = 0; k <= to; k++) {
      const [x, y] = [H[k][i], H[k][j]];
      H[k][i] = plus(scale(x, c), times(conjugate(s), y));
      H[k][j] = minus(scale(y, c), times(s, x));
    }
  }
  // c and s for which the turn of (x, y) is (r, 0).
  function turn(x, y) {
    const length = Math.hypot(size(x), size(y));
    if (length === 0 || size(y) === 0) return [1, [0, 0]];
    if (size(x) === 0) return [0, scale(conjugate(y), 1 / size(y))];
    const c = size(x) / length;
    return [c, scale(times(scale(x, 1 / size(x)), conjugate(y)), 1 / length)];
  }

  // All eigenvalues of a real matrix: to Hessenberg form by rotations, then the QR algorithm with
  // Wilkinson's shift, which splits off one eigenvalue after the other.
  function eigenvalues(A) {
    const n = A.length;
    const H = A.map((row) => row.map((x) => [x, 0]));
    for (let k = 0; k < n - 2; k++) {
      for (let i = k + 2; i < n; i++) {
        const [c, s] = turn(H[k + 1][k], H[i][k]);
        turnRows(H, k + 1, i, c, s, k);
        turnColumns(H, k + 1, i, c, s, n - 1);
      }
    }
    let high = n - 1;
    for (let round = 0; high > 0 && round < 60 * n; round++) {
      let low = high;
      while (low > 0) {
        const near = size(H[low][low]) + size(H[low - 1][low - 1]);
        if (size(H[low][low - 1]) <= 2 ** -53 * near) break;
        low -= 1;
      }
      if (low === high) {
        high -= 1;
        continue;
      }
      const [a, b, c, d] = [
        H[high - 1][high - 1],
        H[high - 1][high],
        H[high][high - 1],
        H[high][high],
      ];
      const half = scale(minus(a, d), 0.5);
      const spread = root(plus(times(half, half), times(b, c)));
      const middle = scale(plus(a, d), 0.5);
      const ends = [plus(middle, spread), minus(middle, spread)];
      let shift = size(minus(ends[0], d)) < size(minus(ends[1], d)) ? ends[0] : ends[1];
      if (round % 11 === 10) shift = plus(shift, [size(c), 0]); // out of a standstill
      for (let i = low; i <= high; i++) H[i][i] = minus(H[i][i], shift);
      const turns = [];
      for (let i = low; i < high; i++) {
        const [cosine, sine] = turn(H[i][i], H[i + 1][i]);
        turnRows(H, i, i + 1, cosine, sine, i);
        turns.push([cosine, sine]);
      }
      turns.forEach(([cosine, sine], i) =>
        turnColumns(H, low + i, low + i + 1, cosine, sine, Math.min(low + i + 1, high)),
      );
      for (let i = low; i <= high; i++) H[i][i] = plus(H[i][i], shift);
    }
    return H.map((row, i) => row[i]);
  }

  // ---- a layer ---------------------------------------------------------------------------

  // log Lambda(s) = log sum_u mu(u) e^g(s, u)
  function logNormaliser(G, mu) {
    return G.map((row) => {
      const logits = row.map((g, u) => g + Math.log(mu[u]));
      const top = Math.max(...logits);
      return top + Math.log(logits.reduce((sum, x) => sum + Math.exp(x - top), 0));
    });
  }

  // a(s): Lambda/(Lambda + b) with a sink, Lambda/max Lambda rescaled, 1 without a remedy.
  function steps(G, mu, remedy, sink) {
    const lambda = logNormaliser(G, mu);
    const top = Math.max(...lambda);
    if (remedy === "sink") return lambda.map((x) => 1 / (1 + Math.exp(Math.log(sink) - x)));
    return lambda.map((x) => (remedy === "rescaled" ? Math.exp(x - top) : 1));
  }

  // T = I - alpha diag(a) M (I - gamma P)
  function layer({ P, X }, { remedy, sink, sharpness, gamma, step_size: alpha }) {
    const G = core.scores(X, sharpness);
    const mu = core.stationary(P);
    const M = core.populationKernel(G, mu);
    const ahead = core.product(M, P);
    const a = steps(G, mu, remedy, sink);
    return M.map((row, s) =>
      row.map((m, u) => (s === u ? 1 : 0) - alpha * a[s] * (m - gamma * ahead[s][u])),
    );
  }

  // The largest absolute row sum of I, T, T^2, ...: what layers do to the worst error.
  function factors(T, layers) {
    const norm = (A) => Math.max(...A.map((row) => row.reduce((sum, x) => sum + Math.abs(x), 0)));
    let power = core.oneHot(T.length);
    const found = [norm(power)];
    for (let l = 1; l <= layers; l++) {
      power = core.product(power, T);
      found.push(norm(power));
    }
    return found;
  }

  function analyse(chain, state, layers) {
    const T = layer(chain, state);
    const values = eigenvalues(T);
    return {
      values,
      radius: Math.max(...values.map(size)),
      // of diag(a) M (I - gamma P): some step size converges where it is more than 0
      drift: Math.min(...values.map(([re]) => (1 - re) / state.step_size)),
      factors: factors(T, layers),
    };
  }

  return { eigenvalues, layer, analyse };
})();

figures.eigenvalues = (stage, data) => {
  const { number, linear, ticks, axes, line, mark, key, shape, superscript } = plot;
  const control = (name) => data.controls.find(({ key }) => key === name);
  const plane = stage.panel("Eigenvalues of a layer", "ictd-wide");
  const errors = stage.panel("What layers do to the worst error");
  const map = stage.panel("Spectral radius at every sharpness");
  plane.node.append(
    key([
      ["dot", "ictd-now", "inside: dies out"],
      ["diamond", "ictd-limit", "outside: grows"],
      ["line", "ictd-true", "unit circle"],
    ]),
  );

  const CLOSE = 1e-9; // of 1: floats don't tell on which side

  function drawPlane(values) {
    const { svg, begin, describe } = plane;
    const { width, height } = begin((wide) => Math.min(340, wide));
    const reach = Math.max(1.15, ...values.map(([x, y]) => 1.08 * Math.max(Math.abs(x), Math.abs(y))));
    const box = { left: 40, top: 22, right: width - 12, bottom: height - 40 };
    const unit = (box.bottom - box.top) / (2 * reach);
    const across = (box.right - box.left) / (2 * unit);
    const y = linear([-reach, reach], [box.bottom, box.top]);
    const x = linear([-across, across], [box.left, box.right]);
    const circle = Array.from({ length: 121 }, (_, k) => {
      const angle = (2 * Math.PI * k) / 120;
      return [x(Math.cos(angle)), y(Math.sin(angle))];
    });
    svg.append(
      axes(
        box,
        ticks(-across, across, 7).map((t) => ({ at: x(t), text: number(t) })),
        ticks(-reach, reach, 5).map((t) => ({ at: y(t), text: number(t) })),
        "real part",
        "imaginary part",
      ),
      line(circle, "ictd-true"),
      ...values.map(([re, im]) =>
        Math.hypot(re, im) > 1 + CLOSE
          ? mark("diamond", x(re), y(im), "ictd-limit")
          : mark("dot", x(re), y(im), "ictd-now"),
      ),
    );
    const text = ([re, im]) =>
      Math.abs(im) < 1e-12 ? number(re) : `${number(re)} ${im < 0 ? "−" : "+"} ${number(Math.abs(im))}i`;
    describe(`Eigenvalues ${values.map(text).join(", ")}.`);
  }

  function drawErrors(found) {
    const { svg, begin, describe } = errors;
    const { width, height } = begin(220);
    const box = { left: 40, top: 22, right: width - 8, bottom: height - 40 };
    const log = (e) => Math.log10(Math.min(1e12, Math.max(e, 1e-12)));
    const all = found.map(log);
    const [low, high] = [Math.min(-1, Math.floor(Math.min(...all))), Math.ceil(Math.max(...all, 1))];
    const y = linear([low, high], [box.bottom, box.top]);
    const x = linear([0, data.layers], [box.left, box.right]);
    svg.append(
      axes(
        box,
        ticks(0, data.layers, 5).map((l) => ({ at: x(l), text: l })),
        ticks(low, high, 5)
          .filter(Number.isInteger)
          .map((k) => ({ at: y(k), text: `10${superscript(k)}` })),
        "layers",
        "factor (log scale)",
      ),
      line([[x(0), y(0)], [x(data.layers), y(0)]], "ictd-true"),
      line(all.map((e, l) => [x(l), y(e)]), "ictd-now-line"),
    );
    describe(`From 1 to ${number(found.at(-1))} after ${data.layers} layers.`);
  }

  function drawMap(chain, state, radius) {
    const { svg, begin, describe } = map;
    const { width, height } = begin(220);
    const box = { left: 40, top: 22, right: width - 8, bottom: height - 40 };
    const { low, high } = control("sharpness");
    const points = Array.from({ length: 81 }, (_, k) => {
      const sharpness = low * (high / low) ** (k / 80);
      const values = spectra.eigenvalues(spectra.layer(chain, { ...state, sharpness }));
      return [sharpness, Math.max(...values.map(([re, im]) => Math.hypot(re, im)))];
    });
    const radii = [radius, ...points.map(([, r]) => r)];
    const [least, most] = [Math.min(0.9, ...radii), Math.max(1.05, ...radii)];
    const x = linear([Math.log10(low), Math.log10(high)], [box.left, box.right]);
    const y = linear([least, most], [box.bottom, box.top]);
    svg.append(
      axes(
        box,
        [0.1, 1, 10].map((tau) => ({ at: x(Math.log10(tau)), text: tau })),
        ticks(least, most, 5).map((r) => ({ at: y(r), text: number(r) })),
        "sharpness τ (log scale)",
        "spectral radius",
      ),
      line([[box.left, y(1)], [box.right, y(1)]], "ictd-true"),
      line(points.map(([tau, r]) => [x(Math.log10(tau)), y(r)]), "ictd-now-line"),
      mark("dot", x(Math.log10(state.sharpness)), y(radius), "ictd-now"),
    );
    const best = points.reduce((a, b) => (b[1] < a[1] ? b : a));
    describe(`Now ${number(radius)}; least, ${number(best[1])}, at sharpness ${number(best[0])}.`);
  }

  return (state) => {
    const chain = data.cases.find(({ name }) => name === state.chain);
    const { values, radius, drift, factors } = spectra.analyse(chain, state, data.layers);
    drawPlane(values);
    drawErrors(factors);
    drawMap(chain, state, radius);
    // Four decimals are not enough very near 1; there the gap is given.
    const gap = Math.abs(radius - 1);
    const how = gap < 0.001 ? `1 ${radius < 1 ? "−" : "+"} ${number(gap)}` : radius.toFixed(4);
    if (gap <= CLOSE) {
      return { summary: "The spectral radius can’t be told from 1: convergence in name at best." };
    }
    if (radius < 1) {
      const half = Math.ceil(Math.log(0.5) / Math.log(radius));
      return {
        summary: `Converges: spectral radius ${how}. In the long run an error halves in ${number(half)} layer${half === 1 ? "" : "s"}.`,
      };
    }
    const why =
      drift < -CLOSE
        ? "An eigenvalue lies to the right of 1: no step size helps."
        : "A smaller step size would do.";
    return { alarm: true, summary: `⚠ Diverges: spectral radius ${how}. ${why}` };
  };
};
figures.eigenvalues.mathematics = spectra;
