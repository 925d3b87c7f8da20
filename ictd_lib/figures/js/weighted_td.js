// Chapter 1: weighted softmax TD on one context. Values converge; the kernel stands beside them.

figures["weighted-td"] = (stage, data) => {
  const { label, number, linear, ticks, axes, line, mark, key, heatMap, superscript } = plot;
  const valuePanel = stage.panel("Values of the states");
  const kernelPanel = stage.panel("Who updates whom: the kernel", "ictd-kernel");
  const errorPanel = stage.panel("Error against iteration", "ictd-wide");
  const readout = plot.element("p", { class: "ictd-readout", "aria-live": "polite" });

  valuePanel.node.append(
    key([
      ["dot", "ictd-now", "v after t iterations"],
      ["tick", "ictd-before", "earlier iterates"],
      ["bar", "ictd-true", "true value"],
      ["diamond", "ictd-limit", "limit of this context"],
    ]),
  );
  errorPanel.node.append(
    key([
      ["line", "ictd-now-line", "to the true values"],
      ["line", "ictd-limit-line", "to the limit of this context"],
    ]),
  );
  kernelPanel.node.append(readout);

  // ---- the kernel's cursor: [query, source] ---------------------------------------------
  let cursor = [0, 0];
  let size = 1;
  let heatBox = null;
  kernelPanel.pointAt(
    "Kernel. The arrow keys move from weight to weight.",
    (x, y) => {
      const row = Math.floor(((y - heatBox.top) / (heatBox.bottom - heatBox.top)) * size);
      const column = Math.floor(((x - heatBox.left) / (heatBox.right - heatBox.left)) * size);
      return Math.min(row, column) >= 0 && Math.max(row, column) < size ? [row, column] : null;
    },
    (to, relative) => {
      const next = relative ? cursor.map((c, i) => c + to[i]) : to;
      const kept = next.map((c) => Math.min(size - 1, Math.max(0, c)));
      if (kept.join() === cursor.join() && !relative) return;
      cursor = kept;
      stage.redraw();
    },
  );

  // ---- the mathematics ------------------------------------------------------------------
  function compute(state) {
    const chain = data.chains.find(({ name }) => name === state.chain);
    const { P, r, start } = chain;
    const X = chain.features[state.features] || core.oneHot(r.length);
    const context = core.sampleContext(P, r, start, state.context_length, state.seed);
    const seen = core.summarise(context, r.length);
    const kernel = core.empiricalKernel(core.scores(X, state.sharpness), seen.visits);
    // No value of this chain exceeds max|r| / (1 - gamma); a hundred times that is divergence.
    const possible = core.largest(r) / (1 - state.gamma);
    const steps = data.controls.find((control) => control.key === "iterations").high;
    const model = { kernel, transitions: seen.transitions, meanReward: seen.meanReward };
    const run = core.iterate(model, state.gamma, state.alpha, steps, 100 * possible);
    const truth = core.values(P, r, state.gamma);
    const limit = core.certaintyEquivalence(seen, state.gamma);
    const known = limit.every((x) => x !== null);
    return {
      ...run,
      kernel,
      truth,
      limit,
      possible,
      unseen: seen.visits.filter((N) => N === 0).length,
      t: Math.min(state.iterations, run.iterates.length - 1),
      toTruth: run.iterates.map((v) => core.distance(v, truth)),
      toLimit: known ? run.iterates.map((v) => core.distance(v, limit)) : null,
    };
  }

  // ---- the pictures ---------------------------------------------------------------------
  function drawValues({ iterates, truth, limit, t }) {
    const { svg, begin, describe } = valuePanel;
    const { width, height } = begin(300);
    const box = { left: 40, top: 22, right: width - 8, bottom: height - 40 };
    // Room for the true values and the limit, and for iterates as far out again.
    const marks = [0, ...truth, ...limit.filter((x) => x !== null)];
    let [low, high] = [Math.min(...marks), Math.max(...marks)];
    const room = 0.5 * (high - low) || 1;
    const all = iterates.flat();
    [low, high] = [
      Math.min(low, Math.max(low - room, Math.min(...all))),
      Math.max(high, Math.min(high + room, Math.max(...all))),
    ];
    const pad = 0.06 * (high - low) || 1;
    const y = linear([low - pad, high + pad], [box.bottom, box.top]);
    const x = linear([-0.5, truth.length - 0.5], [box.left, box.right]);
    const every = Math.ceil(truth.length / Math.floor((box.right - box.left) / 20));
    svg.append(
      axes(
        box,
        truth.map((_, s) => ({ at: x(s), text: s })).filter((_, s) => s % every === 0),
        ticks(low - pad, high + pad, 5).map((v) => ({ at: y(v), text: number(v) })),
        "state",
        "value",
      ),
    );
    const before = [1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144].map((lag) => t - lag);
    for (const earlier of before.filter((k) => k >= 0)) {
      iterates[earlier].forEach((v, s) => {
        if (v >= low && v <= high) svg.append(mark("tick", x(s), y(v), "ictd-before"));
      });
    }
    truth.forEach((v, s) => svg.append(mark("bar", x(s), y(v), "ictd-true")));
    limit.forEach((v, s) => {
      if (v !== null) svg.append(mark("diamond", x(s), y(v), "ictd-limit"));
    });
    iterates[t].forEach((v, s) => {
      const kind = v > high + pad ? "up" : v < low - pad ? "down" : "dot";
      const at = Math.min(box.bottom, Math.max(box.top, y(v)));
      svg.append(mark(kind, x(s), at, "ictd-now"));
    });
    describe(
      `${truth.length} states; values from ${number(Math.min(...iterates[t]))} to ` +
        `${number(Math.max(...iterates[t]))}, true values from ${number(Math.min(...truth))} ` +
        `to ${number(Math.max(...truth))}.`,
    );
  }

  function drawKernel({ kernel }) {
    size = kernel.length;
    cursor = cursor.map((c) => Math.min(c, size - 1));
    const { svg, begin, describe } = kernelPanel;
    const { width } = begin((w) => Math.min(w, 360) - 4);
    const side = Math.min(width, 360) - 46;
    const left = 30 + Math.max(0, (width - 360) / 2);
    heatBox = { left, top: 22, right: left + side, bottom: 22 + side - 8 };
    heatBox.right = left + (heatBox.bottom - heatBox.top);
    const cell = (heatBox.right - heatBox.left) / size;
    svg.append(heatMap(kernel, heatBox, cursor));
    kernel.forEach((_, s) => {
      const middle = (s + 0.5) * cell;
      const axis = { class: "ictd-number", dy: ".32em" };
      svg.append(
        label(left - 6, heatBox.top + middle, s, { ...axis, "text-anchor": "end" }),
        label(left + middle, heatBox.bottom + 12, s, { ...axis, "text-anchor": "middle" }),
      );
    });
    svg.append(
      label(heatBox.left - 26, 12, "query state s ↓", { class: "ictd-name" }),
      label(heatBox.right, 12, "source state s′ →", { class: "ictd-name", "text-anchor": "end" }),
    );
    const own = kernel.map((row, s) => row[s]);
    describe(
      `A state gives its own visits a weight of ${number(Math.min(...own))} to ` +
        `${number(Math.max(...own))}.`,
    );
    const [s, source] = cursor;
    readout.textContent =
      s === source
        ? `State ${s} takes ${number(kernel[s][s])} of its update from its own visits.`
        : `State ${s} takes ${number(kernel[s][source])} of its update from visits of state ${source}.`;
  }

  function drawErrors({ toTruth, toLimit, t, diverged }, steps) {
    const { svg, begin, describe } = errorPanel;
    const { width, height } = begin(210);
    const box = { left: 40, top: 22, right: width - 12, bottom: height - 40 };
    const smallest = 1e-12; // below, rounding is all that would be drawn
    const log = (e) => Math.log10(Math.max(e, smallest));
    const all = [...toTruth, ...(toLimit || [])].map(log);
    const [low, high] = [Math.floor(Math.min(...all)), Math.ceil(Math.max(...all) + 1e-9)];
    const y = linear([low, high], [box.bottom, box.top]);
    const x = linear([0, steps], [box.left, box.right]);
    const powers = ticks(low, high, 5).filter(Number.isInteger);
    svg.append(
      axes(
        box,
        ticks(0, steps, 6).map((k) => ({ at: x(k), text: k })),
        powers.map((k) => ({ at: y(k), text: `10${superscript(k)}` })),
        "iteration t",
        "largest error over the states (log scale)",
      ),
      line([[x(t), box.top], [x(t), box.bottom]], "ictd-here"),
    );
    if (toLimit) svg.append(line(toLimit.map((e, k) => [x(k), y(log(e))]), "ictd-limit-line"));
    svg.append(
      line(toTruth.map((e, k) => [x(k), y(log(e))]), "ictd-now-line"),
      mark("dot", x(t), y(log(toTruth[t])), "ictd-now"),
    );
    describe(
      diverged
        ? `It grows from ${number(toTruth[0])} without end.`
        : `From ${number(toTruth[0])} at the start to ${number(toTruth[steps])} after ${steps}.`,
    );
  }

  return (state) => {
    const result = compute(state);
    const { t, toTruth, diverged, unseen, limit, truth } = result;
    drawValues(result);
    drawKernel(result);
    drawErrors(result, data.controls.find((control) => control.key === "iterations").high);

    const count = `${t} iteration${t === 1 ? "" : "s"}`;
    if (diverged) {
      return {
        alarm: true,
        summary:
          `⚠ Diverges: with step size ${number(state.alpha)} the largest |v| reaches ` +
          `${number(diverged.size)} at iteration ${diverged.iteration}, and this chain has no ` +
          `|v| above ${number(result.possible)}. Shown: the values after ${count}.`,
      };
    }
    const missing =
      unseen === 0 ? "" : ` ${unseen} of ${truth.length} states were never left in this context.`;
    const floor = limit.some((x) => x === null)
      ? ""
      : ` The limit of this context is ${number(core.distance(limit, truth))} from the truth:` +
        " more iterations can’t mend that.";
    return { summary: `After ${count} the largest error is ${number(toTruth[t])}.${floor}${missing}` };
  };
};
