// Chapter 0: k backups take an error away; a run of k steps has their result for its mean, and
// noise on top. Values, single runs, and both errors against k.

const evaluating = (() => {
  const mean = (x) => x.reduce((a, b) => a + b, 0) / x.length;

  // u, which the backups start from.
  const firstBeliefs = (start, truth, origin) =>
    start === "zero"
      ? truth.map(() => 0)
      : truth.map((v, s) => v + (start === "shifted" || s === origin ? 1 : 0));

  // v <- r + gamma P v, and beside it the standard deviation of a run's return: it varies with
  // the next state and with what follows. A sum of what is never negative: nothing cancels.
  function backup({ v, variance }, P, r, gamma) {
    const ahead = core.apply(P, v);
    const after = core.apply(P, variance);
    const spread = P.map((row, s) => core.dot(row, v.map((x) => (x - ahead[s]) ** 2)));
    return {
      v: r.map((reward, s) => reward + gamma * ahead[s]),
      variance: after.map((x, s) => gamma ** 2 * (x + spread[s])),
    };
  }

  // sum_{t < k} gamma^t R_{t+1} + gamma^k u(S_k) for each run. Each has random numbers of its
  // own, so that a longer run goes on where the shorter one ended.
  function returnsOf({ P, r, gamma, first, steps, origin, runs, seed }) {
    const seeds = core.generator(seed);
    return Array.from({ length: runs }, () => {
      const next = core.generator(seeds() * 4294967296);
      let [s, weight, total] = [origin, 1, 0];
      for (let t = 0; t < steps; t++) {
        total += weight * r[s];
        weight *= gamma;
        s = core.draw(P[s], next());
      }
      return total + weight * first[s];
    });
  }

  // Everything that the figure shows; `most` is how far its error is followed.
  function analyse({ P, r, start, gamma, backups, origin, runs, seed, most }) {
    const truth = core.values(P, r, gamma);
    const first = firstBeliefs(start, truth, origin);
    const steps = [{ v: first, variance: r.map(() => 0) }];
    for (let k = 1; k <= most; k++) steps.push(backup(steps[k - 1], P, r, gamma));
    const returns = returnsOf({ P, r, gamma, first, steps: backups, origin, runs, seed });
    const errors = steps.map(({ v }) => core.distance(v, truth));
    return {
      truth,
      iterates: steps.map(({ v }) => v),
      errors,
      bound: errors.map((_, k) => errors[0] * gamma ** k),
      deviations: steps.map(({ variance }) => Math.sqrt(variance[origin])),
      returns,
      mean: mean(returns),
    };
  }

  return { analyse };
})();

figures["policy-evaluation"] = (stage, data) => {
  const { number, linear, ticks, axes, line, mark, key, shape, superscript } = plot;
  const valuePanel = stage.panel("Values of the states");
  const runPanel = stage.panel("Runs of k steps from s");
  const errorPanel = stage.panel("Two errors against k", "ictd-wide");
  valuePanel.node.append(
    key([
      ["dot", "ictd-now", "after k backups"],
      ["tick", "ictd-before", "a backup before"],
      ["bar", "ictd-true", "value"],
      ["diamond", "ictd-limit", "average of m runs"],
    ]),
  );
  runPanel.node.append(
    key([
      ["tick", "ictd-before", "a run"],
      ["line", "ictd-now-line", "average so far"],
      ["line", "ictd-limit-line", "k backups ± a standard error"],
      ["line", "ictd-true", "value"],
    ]),
  );
  errorPanel.node.append(
    key([
      ["line", "ictd-now-line", "backups: largest error"],
      ["line", "ictd-paper", "γᵏ times the first error"],
      ["line", "ictd-limit-line", "m runs of k steps: standard error"],
    ]),
  );

  function range(numbers) {
    const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
    const same = high - low <= 1e-9 * Math.max(1, Math.abs(low), Math.abs(high)); // but for rounding
    const pad = same ? 0.5 : 0.06 * (high - low);
    return [low - pad, high + pad];
  }
  const marks = (low, high, place) => ticks(low, high, 5).map((v) => ({ at: place(v), text: number(v) }));

  function drawValues({ truth, iterates, mean }, k, origin) {
    const { svg, begin, describe } = valuePanel;
    const { width, height } = begin(230);
    const box = { left: 40, top: 22, right: width - 8, bottom: height - 40 };
    // All iterates, so that the scale rests while k moves.
    const [low, high] = range([...truth, ...iterates.flat(), mean]);
    const y = linear([low, high], [box.bottom, box.top]);
    const x = linear([-0.5, truth.length - 0.5], [box.left, box.right]);
    svg.append(
      axes(box, truth.map((_, s) => ({ at: x(s), text: s })), marks(low, high, y), "state", "value"),
      ...iterates[Math.max(0, k - 1)].map((v, s) => mark("tick", x(s), y(v), "ictd-before")),
      ...truth.map((v, s) => mark("bar", x(s), y(v), "ictd-true")),
      ...iterates[k].map((v, s) => mark("dot", x(s), y(v), "ictd-now")),
      mark("diamond", x(origin), y(mean), "ictd-limit"),
    );
    describe(
      `Values from ${number(Math.min(...truth))} to ${number(Math.max(...truth))}; after ${k} backups ` +
        `from ${number(Math.min(...iterates[k]))} to ${number(Math.max(...iterates[k]))}.`,
    );
  }

  function drawRuns({ truth, iterates, deviations, returns }, k, origin) {
    const { svg, begin, describe } = runPanel;
    const { width, height } = begin(230);
    const box = { left: 40, top: 22, right: width - 8, bottom: height - 40 };
    const m = returns.length;
    const [middle, value] = [iterates[k][origin], truth[origin]];
    const [low, high] = range([...returns, middle - deviations[k], middle + deviations[k], value]);
    const y = linear([low, high], [box.bottom, box.top]);
    const x = linear([0.5, m + 0.5], [box.left, box.right]);
    let sum = 0;
    const average = returns.map((c, j) => [x(j + 1), y((sum += c) / (j + 1))]);
    const funnel = (side) =>
      returns.map((_, j) => [x(j + 1), y(middle + (side * deviations[k]) / Math.sqrt(j + 1))]);
    const half = Math.min(6, Math.max(1.5, (x(1) - x(0)) / 3));
    const stroke = (c, j) => `M${(x(j + 1) - half).toFixed(1)} ${y(c).toFixed(1)}h${(2 * half).toFixed(1)}`;
    const whole = ticks(1, m, 5).filter(Number.isInteger);
    svg.append(
      axes(box, whole.map((j) => ({ at: x(j), text: j })), marks(low, high, y), "run", "return of a run"),
      line([[box.left, y(value)], [box.right, y(value)]], "ictd-true"),
      shape("path", { class: "ictd-before", d: returns.map(stroke).join("") }),
      line(funnel(1), "ictd-limit-line"),
      line(funnel(-1), "ictd-limit-line"),
      line(average, "ictd-now-line"),
      mark("dot", ...average.at(-1), "ictd-now"),
    );
    describe(
      `Single runs from ${number(Math.min(...returns))} to ${number(Math.max(...returns))}; ` +
        `their mean would be ${number(middle)} and deviate by ${number(deviations[k])}.`,
    );
  }

  function drawErrors({ errors, bound, deviations }, k, runs) {
    const { svg, begin, describe } = errorPanel;
    const { width, height } = begin(240);
    const box = { left: 40, top: 22, right: width - 12, bottom: height - 40 };
    const smallest = 1e-6; // below, neither error matters any more; curves end there
    const log = (e) => Math.log10(Math.max(e, smallest));
    const noise = deviations.map((d, j) => [j, d / Math.sqrt(runs)]).filter(([, e]) => e > smallest);
    const all = [...errors, ...noise.map(([, e]) => e)].map(log);
    const [low, high] = [Math.floor(Math.min(...all)), Math.ceil(Math.max(...all) + 1e-9)];
    const y = linear([low, high], [box.bottom, box.top]);
    const x = linear([0, errors.length - 1], [box.left, box.right]);
    const curve = (numbers) => {
      const end = numbers.findIndex((e) => e < smallest);
      return numbers.slice(0, end < 0 ? numbers.length : end + 1).map((e, j) => [x(j), y(log(e))]);
    };
    svg.append(
      axes(
        box,
        ticks(0, errors.length - 1, 6).map((j) => ({ at: x(j), text: j })),
        ticks(low, high, 5)
          .filter(Number.isInteger)
          .map((power) => ({ at: y(power), text: `10${superscript(power)}` })),
        "backups, or steps of a run: k",
        "error (log scale)",
      ),
      line([[x(k), box.top], [x(k), box.bottom]], "ictd-here"),
    );
    if (noise.length) svg.append(line(noise.map(([j, e]) => [x(j), y(log(e))]), "ictd-limit-line"));
    svg.append(
      line(curve(errors), "ictd-now-line"),
      line(curve(bound), "ictd-paper"), // on top, and dashed: both are seen where they coincide
      mark("dot", x(k), y(log(errors[k])), "ictd-now"),
    );
    describe(
      `The largest error falls from ${number(errors[0])} to ${number(errors.at(-1))}; the standard ` +
        `error of ${runs} runs rises to ${number(deviations.at(-1) / Math.sqrt(runs))}.`,
    );
  }

  return (state) => {
    const { backups: k, origin, runs } = state;
    const { P, r } = data.chains.find(({ name }) => name === state.chain);
    const most = data.controls.find((control) => control.key === "backups").high;
    const found = evaluating.analyse({ ...state, P, r, most });
    drawValues(found, k, origin);
    drawRuns(found, k, origin);
    drawErrors(found, k, runs);
    const { truth, iterates, errors, bound, deviations, mean } = found;
    const count = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;
    return {
      summary:
        `After ${count(k, "backup")} the largest error is ${number(errors[k])}; γᵏ times the ` +
        `first one is ${number(bound[k])}. State ${origin}: its value is ${number(truth[origin])}, ` +
        `${count(k, "backup")} give ${number(iterates[k][origin])}, and ${count(runs, "run")} of ` +
        `${count(k, "step")} average ${number(mean)}, with a standard error of ` +
        `${number(deviations[k] / Math.sqrt(runs))}.`,
    };
  };
};
figures["policy-evaluation"].mathematics = evaluating;
