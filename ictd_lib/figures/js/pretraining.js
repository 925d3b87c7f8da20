// Chapter 5: a replay of training. The run gives w and A at some of its steps; what a model with
// these does on a chain that it never saw is computed here, for every snapshot.

const pretrained = (() => {
  // g(s, u) = x(u)' A x(s); the row is the query.
  const scores = (X, A) => {
    const asked = X.map((x) => core.apply(A, x)); // A x(s)
    return asked.map((query) => X.map((x) => core.dot(x, query)));
  };

  // v <- v + M (w_r r + w_t gamma P v + w_c v), from 0; a run that passes `bound` stops there.
  function forward(kernel, { meanReward, transitions }, w, gamma, layers, bound) {
    let v = new Array(kernel.length).fill(0);
    for (let l = 1; l <= layers; l++) {
      const ahead = core.apply(transitions, v);
      const error = v.map((x, s) => w[0] * meanReward[s] + w[1] * gamma * ahead[s] + w[2] * x);
      const gain = core.apply(kernel, error);
      v = v.map((x, s) => x + gain[s]);
      if (!(core.largest(v) <= bound)) return { values: null, diverged: l };
    }
    return { values: v, diverged: null };
  }

  // What does not depend on the parameters: the context, the true values, the context's limit.
  function task({ P, r, start, gamma, n, seed }) {
    const seen = core.summarise(core.sampleContext(P, r, start, n, seed), r.length);
    return {
      seen,
      mu: core.stationary(P),
      truth: core.values(P, r, gamma),
      limit: core.certaintyEquivalence(seen, gamma),
    };
  }

  // sum mu (v - v_pi)^2 / sum mu v_pi^2
  const relativeError = (v, { mu, truth }) =>
    core.dot(mu, v.map((x, s) => (x - truth[s]) ** 2)) / core.dot(mu, truth.map((x) => x * x));

  function analyse({ X, A, w, gamma, layers }, given, bound) {
    const kernel = core.empiricalKernel(scores(X, A), given.seen.visits);
    const run = forward(kernel, given.seen, w, gamma, layers, bound);
    return {
      kernel,
      diagonality: kernel.reduce((sum, row, s) => sum + row[s], 0) / kernel.length,
      least: Math.min(...kernel.map((row, s) => row[s])),
      error: run.values && relativeError(run.values, given),
      stepSize: (w[0] + w[1] - w[2]) / 3,
      sharpness: A.reduce((sum, row, i) => sum + row[i], 0) / A.length,
      ...run,
    };
  }

  return { scores, forward, task, relativeError, analyse };
})();

figures.pretraining = (stage, data) => {
  const { shape, label, number, superscript, linear, ticks, axes, line, mark, key, heatMap } = plot;
  const panels = {
    A: stage.panel("What scores are made of: A"),
    kernel: stage.panel("Who updates whom on the new chain"),
    weights: stage.panel("The three weights"),
    own: stage.panel("Weight on itself"),
    error: stage.panel("Error on the new chain"),
    values: stage.panel("Values of the new chain"),
  };
  panels.A.node.append(
    key([
      ["bar", "ictd-now-line", "positive"],
      ["bar", "ictd-limit", "negative"],
    ]),
  );
  panels.weights.node.append(
    key([
      ["line", "ictd-now-line", "reward"],
      ["line", "ictd-limit-line", "target"],
      ["line", "ictd-true", "current"],
    ]),
  );
  panels.own.node.append(
    key([
      ["line", "ictd-now-line", "mean"],
      ["line", "ictd-bound", "least"],
      ["line", "ictd-limit-line", "5.1 asks of the least"],
    ]),
  );
  panels.error.node.append(
    key([
      ["line", "ictd-now-line", "this run"],
      ["line", "ictd-true", "limit of depth, and the answer 0"],
    ]),
  );
  panels.values.node.append(
    key([
      ["dot", "ictd-now", "model"],
      ["bar", "ictd-true", "true"],
      ["diamond", "ictd-limit", "limit of this context"],
    ]),
  );

  // What the snapshots of a run do: computed once for each chain, context and depth.
  let kept = { of: null };
  function replay(state) {
    const { run, layers, context_length: n, seed } = state;
    const of = [run, layers, n, seed].join();
    if (kept.of === of) return kept;
    const { snapshots, gamma, steps } = data.runs.find(({ name }) => name === run);
    const given = pretrained.task({ ...data.chain, gamma, n, seed });
    const bound = 1e3 * core.largest(given.truth);
    const done = snapshots.map(({ w, A }) =>
      pretrained.analyse({ X: data.chain.X, A, w, gamma, layers }, given, bound),
    );
    const known = given.limit.every((x) => x !== null);
    const floor = known ? pretrained.relativeError(given.limit, given) : null;
    kept = { of, snapshots, gamma, steps, given, done, floor };
    return kept;
  }

  // ---- the pictures ------------------------------------------------------------------------

  function drawMatrix(panel, draw, rowName, columnName) {
    const { svg, begin } = panel;
    const room = begin((w) => Math.min(w, 230) + 12);
    const side = room.height - 32;
    const box = { left: 22, top: 18, right: 22 + side, bottom: 18 + side };
    svg.append(
      draw(box),
      label(box.left, 12, columnName, { class: "ictd-name" }),
      label(0, 0, rowName, {
        class: "ictd-name",
        transform: `translate(12 ${box.bottom}) rotate(-90)`,
      }),
    );
  }

  function drawScores(A) {
    const most = Math.max(...A.flat().map(Math.abs), 1e-9);
    const part = (sign) => A.map((row) => row.map((a) => Math.max(0, (sign * a) / most)));
    drawMatrix(
      panels.A,
      (box) => {
        const [positive, negative] = [heatMap(part(1), box), heatMap(part(-1), box)];
        negative.classList.add("ictd-negative");
        return shape("g", {}, positive, negative);
      },
      "row",
      `column; darkest: ${number(most)} in size`,
    );
    panels.A.describe(`Largest entry ${number(most)} in size, mean of the diagonal ` +
      `${number(A.reduce((sum, row, i) => sum + row[i], 0) / A.length)}.`);
  }

  function drawKernel(kernel) {
    const most = Math.max(...kernel.flat());
    drawMatrix(panels.kernel, (box) => heatMap(kernel, box), "query", "source");
    panels.kernel.describe(`Largest weight ${number(most)}.`);
  }

  // A picture over the steps, on a scale that gives the first hundred half of the room.
  function overSteps(panel, { snapshots, steps }, at, [low, high], yTicks, yName) {
    const { svg, begin } = panel;
    const { width, height } = begin(190);
    const box = { left: 36, top: 22, right: width - 10, bottom: height - 40 };
    const place = linear([0, Math.log1p(steps)], [box.left, box.right]);
    const x = (step) => place(Math.log1p(step));
    const y = linear([low, high], [box.bottom, box.top]);
    svg.append(
      axes(
        box,
        [0, 3, 10, 30, 100, 300, 1000, 3000].filter((s) => s <= steps).map((s) => ({ at: x(s), text: s })),
        yTicks.map(({ value, text }) => ({ at: y(value), text })),
        "training step (log scale)",
        yName,
      ),
      line([[x(at), box.top], [x(at), box.bottom]], "ictd-here"),
    );
    const across = (value, className) => line([[box.left, y(value)], [box.right, y(value)]], className);
    // A curve has gaps where there is no number.
    const curve = (values, className) => {
      const pieces = [[]];
      values.forEach((value, k) => {
        if (value === null) pieces.push([]);
        else pieces.at(-1).push([x(snapshots[k].step), y(value)]);
      });
      return shape("g", {}, ...pieces.filter((p) => p.length > 1).map((p) => line(p, className)));
    };
    const dot = (value) => (value === null ? [] : [mark("dot", x(at), y(value), "ictd-now")]);
    return { svg, across, curve, dot };
  }

  const whole = (low, high, count) => ticks(low, high, count).map((value) => ({ value, text: number(value) }));

  function drawWeights(found, now) {
    const all = found.snapshots.map(({ w }) => w);
    const [low, high] = [Math.min(0, ...all.flat()), Math.max(0, ...all.flat())];
    const pad = 0.06 * (high - low) || 1;
    const range = [low - pad, high + pad];
    const { svg, across, curve } = overSteps(panels.weights, found, now.step, range, whole(...range, 5), "weight");
    svg.append(
      across(0, "ictd-rule"),
      curve(all.map((w) => w[2]), "ictd-true"),
      curve(all.map((w) => w[1]), "ictd-limit-line"),
      curve(all.map((w) => w[0]), "ictd-now-line"),
    );
    panels.weights.describe(`Reward ${number(now.w[0])}, target ${number(now.w[1])}, current ${number(now.w[2])}.`);
  }

  function drawOwn(found, now, shown) {
    const threshold = (1 + found.gamma) / 2;
    const { svg, across, curve, dot } = overSteps(panels.own, found, now.step, [0, 1], whole(0, 1, 5), "M(s, s)");
    svg.append(
      across(threshold, "ictd-limit-line"),
      curve(found.done.map(({ least }) => least), "ictd-bound"),
      curve(found.done.map(({ diagonality }) => diagonality), "ictd-now-line"),
      ...dot(shown.diagonality),
    );
    panels.own.describe(`Mean ${number(shown.diagonality)}, least ${number(shown.least)}; threshold ${number(threshold)}.`);
  }

  function drawError(found, now, shown) {
    const log = (e) => (e === null ? null : Math.min(2, Math.max(-6, Math.log10(e))));
    const curves = found.done.map(({ error }) => log(error));
    const floor = found.floor === null ? null : log(found.floor);
    const levels = [0, floor, ...curves].filter((e) => e !== null);
    const range = [Math.floor(Math.min(...levels) - 0.05), Math.ceil(Math.max(...levels) + 0.05)];
    const named = ticks(...range, 6)
      .filter(Number.isInteger)
      .map((value) => ({ value, text: `10${superscript(value)}` }));
    const { svg, across, curve, dot } = overSteps(panels.error, found, now.step, range, named, "relative error (log scale)");
    svg.append(across(0, "ictd-true"));
    if (floor !== null) svg.append(across(floor, "ictd-true"));
    svg.append(curve(curves, "ictd-now-line"), ...dot(log(shown.error)));
    panels.error.describe(shown.error === null ? "Diverged." : `${number(shown.error)}.`);
  }

  function drawValues({ given }, shown) {
    const { svg, begin, describe } = panels.values;
    const { width, height } = begin(190);
    const box = { left: 36, top: 22, right: width - 8, bottom: height - 40 };
    const { truth, limit } = given;
    const most = 2 * core.largest(truth);
    const clip = (v) => Math.max(-most, Math.min(most, v));
    const values = (shown.values || []).map(clip);
    const seen = limit.map((v) => (v === null ? null : clip(v)));
    const all = [0, ...truth, ...values, ...seen.filter((v) => v !== null)];
    const pad = 0.08 * (Math.max(...all) - Math.min(...all));
    const range = [Math.min(...all) - pad, Math.max(...all) + pad];
    const y = linear(range, [box.bottom, box.top]);
    const x = linear([-0.5, truth.length - 0.5], [box.left, box.right]);
    svg.append(
      axes(
        box,
        truth.map((_, s) => ({ at: x(s), text: s })),
        ticks(...range, 5).map((v) => ({ at: y(v), text: number(v) })),
        "state",
        "value",
      ),
      ...truth.map((v, s) => mark("bar", x(s), y(v), "ictd-true")),
      ...seen.flatMap((v, s) => (v === null ? [] : [mark("diamond", x(s), y(v), "ictd-limit")])),
      ...values.map((v, s) => mark("dot", x(s), y(v), "ictd-now")),
    );
    describe(`True ${truth.map(number).join(", ")}. Model ${values.map(number).join(", ") || "diverged"}.`);
  }

  return (state) => {
    const found = replay(state);
    const k = Math.min(state.snapshot, found.snapshots.length - 1);
    const [now, shown] = [found.snapshots[k], found.done[k]];
    drawScores(now.A);
    drawKernel(shown.kernel);
    drawWeights(found, now);
    drawOwn(found, now, shown);
    drawError(found, now, shown);
    drawValues(found, shown);

    const like = `Nearest construction: α = ${number(shown.stepSize)}, τ = ${number(shown.sharpness)}. `;
    const own = `Mean weight on itself ${number(shown.diagonality)}.`;
    const begin = `Step ${now.step} of ${found.steps}. `;
    const [w, sign] = [now.w, (x) => (x > 0 ? "+" : "−")];
    const signs = `Signs (${w.map(sign).join(", ")}). `;
    if (shown.diverged) {
      return { alarm: true, summary: `⚠ ${begin}Diverges at layer ${shown.diverged} of ${state.layers}. ${signs}${like}${own}` };
    }
    const floor = found.floor === null ? "" : ` (limit of depth: ${number(found.floor)})`;
    return { summary: `${begin}Relative error ${number(shown.error)}${floor}. ${signs}${like}${own}` };
  };
};
figures.pretraining.mathematics = pretrained;
