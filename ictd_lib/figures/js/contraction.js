// Chapter 4: error against depth, with what the kernel's diagonal guarantees and what the context
// leaves. Three pictures of one run: its error, the diagonal that governs it, the map of both.

const contracting = (() => {
  // rho(A) = lim |A^k|^(1/k), by squaring: log rho = sum_j 2^-j log |A_j|, A_(j+1) = (A_j/|A_j|)^2.
  function spectralRadius(A) {
    let log = 0;
    for (let j = 0; j < 60; j++) {
      const size = Math.max(...A.map((row) => row.reduce((sum, x) => sum + Math.abs(x), 0)));
      if (size === 0) return 0;
      log += Math.log(size) / 2 ** j;
      const unit = A.map((row) => row.map((x) => x / size));
      A = core.product(unit, unit);
    }
    return Math.exp(log);
  }

  const diagonal = (M) => M.map((row, s) => row[s]);
  const margin = (own, gamma) => Math.min(...own) - (1 + gamma) / 2;

  // Everything that the figure shows. Over states that were never left there is nothing to
  // contract: limit, margin and radius of the context are those of the states that were.
  function analyse({ P, r, start, X, gamma, sharpness, n, layers, seed }) {
    const seen = core.summarise(core.sampleContext(P, r, start, n, seed), r.length);
    const G = core.scores(X, sharpness);
    const kernel = core.empiricalKernel(G, seen.visits);
    const truth = core.values(P, r, gamma);
    const limit = core.certaintyEquivalence(seen, gamma);
    const left = r.map((_, s) => s).filter((s) => seen.visits[s] > 0);
    const known = limit.some((x) => x !== null);
    const possible = core.largest(r) / (1 - gamma);
    const { iterates, diverged } = core.iterate({ kernel, ...seen }, gamma, 1, layers, 100 * possible);
    const own = diagonal(kernel);
    const pull = core.product(kernel, seen.transitions); // M P, row by row a mean over successors
    const error = left.map((s) =>
      left.map((u) => (s === u ? 1 : 0) - kernel[s][u] + gamma * pull[s][u]),
    );
    const among = (v, w) => core.largest(left.map((s) => v[s] - w[s]));
    return {
      own,
      population: diagonal(core.populationKernel(G, core.stationary(P))),
      missing: r.length - left.length,
      margin: margin(left.map((s) => own[s]), gamma),
      radius: known ? spectralRadius(error) : null,
      floor: known ? among(limit, truth) : null,
      toTruth: iterates.map((v) => core.distance(v, truth)),
      toLimit: known ? iterates.map((v) => among(v, limit)) : null,
      diverged,
      visits: seen.visits,
    };
  }

  return { analyse, diagonal, margin, spectralRadius };
})();

figures.contraction = (stage, data) => {
  const { number, linear, ticks, axes, line, mark, key, superscript } = plot;
  const control = (name) => data.controls.find(({ key }) => key === name);
  const errorPanel = stage.panel("Error against depth", "ictd-wide");
  const diagonalPanel = stage.panel("What a state gives itself");
  const mapPanel = stage.panel("Where Assumption 5.1 holds");
  errorPanel.node.append(
    key([
      ["line", "ictd-now-line", "to the true values"],
      ["line", "ictd-limit-line", "to the limit of this context"],
      ["line", "ictd-true", "floor"],
      ["line", "ictd-bound", "(1 − 2Ĉ)ˡ, this context’s margin"],
      ["line", "ictd-paper", "(1 − C)ˡ, the chain’s margin"],
    ]),
  );
  diagonalPanel.node.append(
    key([
      ["dot", "ictd-now", "this context"],
      ["bar", "ictd-true", "the chain"],
      ["line", "ictd-limit-line", "threshold (1 + γ)/2"],
    ]),
  );
  mapPanel.node.append(
    key([
      ["dot", "ictd-now", "you are here"],
      ["line", "ictd-now-line", "this context: holds below"],
      ["line", "ictd-true", "the chain"],
    ]),
  );
  function drawErrors({ toTruth, toLimit, floor, margin }, C, depth, layers) {
    const { svg, begin, describe } = errorPanel;
    const { width, height } = begin(260);
    const box = { left: 40, top: 22, right: width - 12, bottom: height - 40 };
    const log = (e) => Math.log10(Math.max(e, 1e-12)); // below, rounding is all there is to see
    const all = [...toTruth, ...(toLimit || [])].map(log);
    const [low, high] = [Math.floor(Math.min(...all)), Math.ceil(Math.max(...all) + 1e-9)];
    const y = linear([low, high], [box.bottom, box.top]);
    const x = linear([0, layers], [box.left, box.right]);
    const curve = (errors) => errors.map((e, l) => [x(l), y(log(e))]);
    // A straight line from the first distance down, cut off where the picture ends.
    const bound = (factor) => {
      const [from, slope] = [log(toLimit[0]), Math.log10(Math.max(factor, 1e-300))];
      const end = Math.min(layers, (low - from) / slope || 0);
      return [[x(0), y(from)], [x(end), y(from + end * slope)]];
    };
    svg.append(
      axes(
        box,
        ticks(0, layers, 6).map((l) => ({ at: x(l), text: l })),
        ticks(low, high, 5)
          .filter(Number.isInteger)
          .map((k) => ({ at: y(k), text: `10${superscript(k)}` })),
        "layers",
        "largest error over the states (log scale)",
      ),
      line([[x(depth), box.top], [x(depth), box.bottom]], "ictd-here"),
    );
    if (toLimit) {
      svg.append(line([[x(0), y(log(floor))], [x(layers), y(log(floor))]], "ictd-true"));
      if (C > 0) svg.append(line(bound(1 - C), "ictd-paper"));
      if (margin > 0) svg.append(line(bound(1 - 2 * margin), "ictd-bound"));
      svg.append(line(curve(toLimit), "ictd-limit-line"));
    }
    svg.append(
      line(curve(toTruth), "ictd-now-line"),
      mark("dot", x(depth), y(log(toTruth[depth])), "ictd-now"),
    );
    describe(
      `From ${number(toTruth[0])} to ${number(toTruth.at(-1))} after ${toTruth.length - 1} layers.` +
        (toLimit ? ` The floor is ${number(floor)}.` : ""),
    );
  }

  function drawDiagonal({ own, population }, gamma) {
    const { svg, begin, describe } = diagonalPanel;
    const { width, height } = begin(220);
    const box = { left: 34, top: 22, right: width - 8, bottom: height - 40 };
    const least = Math.min(...own, ...population, (1 + gamma) / 2);
    const low = [0.9, 0.5].find((bottom) => bottom < least) || 0;
    const y = linear([low, 1], [box.bottom, box.top]);
    const x = linear([-0.5, own.length - 0.5], [box.left, box.right]);
    const threshold = y((1 + gamma) / 2);
    svg.append(
      axes(
        box,
        own.map((_, s) => ({ at: x(s), text: s })),
        ticks(low, 1, 5).map((w) => ({ at: y(w), text: number(w) })),
        "state",
        "weight on itself",
      ),
      line([[box.left, threshold], [box.right, threshold]], "ictd-limit-line"),
      ...population.map((w, s) => mark("bar", x(s), y(w), "ictd-true")),
      ...own.map((w, s) => mark("dot", x(s), y(w), "ictd-now")),
    );
    describe(
      `Least weight ${number(Math.min(...population))} in the chain, ` +
        `${number(Math.min(...own))} in this context; threshold ${number((1 + gamma) / 2)}.`,
    );
  }

  function drawMap({ X, mu, visits }, { sharpness, gamma }) {
    const { svg, begin, describe } = mapPanel;
    const { width, height } = begin(220);
    const box = { left: 34, top: 22, right: width - 8, bottom: height - 40 };
    const { low, high } = control("sharpness");
    const horizon = control("gamma").high;
    const most = -Math.log10(1 - horizon);
    const x = linear([Math.log10(low), Math.log10(high)], [box.left, box.right]);
    const y = linear([0, most], [box.bottom, box.top]);
    // 5.1 holds where 1/(1 - gamma) is below 1/(2 (1 - min M(s, s))).
    const boundary = (weights) => {
      const points = [];
      for (let k = 0; k <= 80; k++) {
        const place = Math.log10(low) + (k / 80) * Math.log10(high / low);
        const kernel = core.populationKernel(core.scores(X, 10 ** place), weights);
        const away = 2 * (1 - Math.min(...contracting.diagonal(kernel).filter((_, s) => weights[s])));
        const up = -Math.log10(Math.max(away, 1e-300));
        if (up >= 0) points.push([x(place), y(Math.min(most, up))]);
        if (up > most) break; // from here on it holds at every discount of the slider
      }
      return points;
    };
    svg.append(
      axes(
        box,
        [0.1, 1, 10, 100].map((tau) => ({ at: x(Math.log10(tau)), text: tau })),
        [1, 10, 100].map((h) => ({ at: y(Math.log10(h)), text: h })),
        "sharpness τ (log scale)",
        "horizon 1/(1 − γ) (log scale)",
      ),
      line(boundary(mu), "ictd-true"),
      line(boundary(visits), "ictd-now-line"),
      mark("dot", x(Math.log10(sharpness)), y(-Math.log10(1 - gamma)), "ictd-now"),
    );
    describe(`Sharpness ${number(sharpness)}, horizon ${number(1 / (1 - gamma))}.`);
  }

  return (state) => {
    const { P, r, start, X } = data.cases.find(({ name }) => name === state.task);
    const { gamma, sharpness, context_length: n, seed } = state;
    const layers = control("layers").high;
    const found = contracting.analyse({ P, r, start, X, gamma, sharpness, n, layers, seed });
    const { toTruth, diverged, missing, margin, radius, floor } = found;
    const C = contracting.margin(found.population, gamma);
    const depth = Math.min(state.layers, toTruth.length - 1);
    drawErrors(found, C, depth, layers);
    drawDiagonal(found, gamma);
    drawMap({ X, mu: core.stationary(P), visits: found.visits }, state);

    const holds = (c) => (c > 0 ? `holds with margin ${number(c)}` : `fails by ${number(-c)}`);
    const condition = `Assumption 5.1 ${holds(C)} in the chain and ${holds(margin)} in this context.`;
    const factor = radius === null ? "" : ` In the long run a layer multiplies the error by ${number(radius)}.`;
    const unseen = missing
      ? ` ${missing} of ${r.length} states were never left: no depth tells what comes after them.`
      : "";
    if (diverged) {
      return { alarm: true, summary: `⚠ Diverges at layer ${diverged.iteration}. ${condition}${factor}${unseen}` };
    }
    const rest = floor === null ? "" : `; the floor of this context is ${number(floor)}`;
    const count = `${depth} layer${depth === 1 ? "" : "s"}`;
    return {
      summary: `After ${count} the error is ${number(toTruth[depth])}${rest}. ${condition}${factor}${unseen}`,
    };
  };
};
figures.contraction.mathematics = contracting;
