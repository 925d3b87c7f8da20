// Chapter 3: the rows of a prompt as they move through layers of one head and a shift, or of two
// heads. Both forms run side by side; the grid shows one of them, the chart both.

const shifting = (() => {
  // b_j - gamma c_{j+1} for the columns that are sources: zero on the invariant.
  const offsets = (target, current, gamma, n) =>
    target.slice(0, n).map((b, j) => b - gamma * current[j + 1]);

  // The memory before each layer and after the last, with what each layer did to it:
  //   read_i = alpha (R_i + b_i - c_i)        the TD errors, of the n sources
  //   gain_j = sum_i W_ij read_i              what attention writes into c_j
  //   moved_j                                 what arrives in b_j from column j + 1: gamma times
  //                                           the new current value, or times its gain
  // X holds the features of the columns, as many as there are; the last ones are queries.
  function trace({ X, rewards, target, current, gamma, alpha, sharpness, layers }, form) {
    const n = rewards.length;
    const weights = X.map((x) =>
      core.softmax(X.slice(0, n).map((source) => sharpness * core.dot(x, source))),
    );
    const states = [{ target, current }];
    for (let l = 0; l < layers; l++) {
      const { target: b, current: c } = states[l];
      const read = rewards.map((R, i) => alpha * (R + b[i] - c[i]));
      const gain = weights.map((row) => core.dot(row, read));
      const next = c.map((x, j) => x + gain[j]);
      const from = form === "shift" ? next : gain;
      const moved = b.map((_, j) => (j + 1 < b.length ? gamma * from[j + 1] : 0));
      const after = form === "shift" ? moved : b.map((x, j) => x + moved[j]);
      states.push({ target: after, current: next, gain, moved });
    }
    return states;
  }

  return { offsets, trace };
})();

figures.shift = (stage, data) => {
  const { element, shape, label, number, linear, ticks, axes, line, mark, key } = plot;
  const grid = stage.panel("The prompt", "ictd-wide ictd-prompt");
  const chart = stage.panel("Value of the query, in both forms", "ictd-wide");
  const readout = element("p", { class: "ictd-readout", "aria-live": "polite" });
  grid.node.append(readout);
  chart.node.append(
    key([
      ["dot", "ictd-now", "one head and a shift"],
      ["diamond", "ictd-limit", "two heads"],
      ["bar", "ictd-true", "either, from an empty memory"],
    ]),
  );
  const size = data.columns;
  const names = { shift: "one head and a shift", dual: "two heads" };
  const sub = (j) => [...String(j)].map((digit) => "₀₁₂₃₄₅₆₇₈₉"[digit]).join("");
  const fixed = (x) => {
    const text = Math.abs(x) < 1000 ? x.toFixed(2) : x.toPrecision(3);
    return text.replace(/^-(0\.00)$/, "$1").replace("-", "−");
  };

  // ---- the cursor: [row, column] of the grid -----------------------------------------------
  const ROWS = ["state", "reward", "target", "lane", "current", "offset"];
  const READ = ["reward", "target", "current", "offset"];
  let cursor = [1, 0];
  let box = null;
  grid.pointAt(
    "The prompt. The arrow keys move from entry to entry.",
    (x, y) => {
      const column = Math.floor((x - box.left) / box.cell);
      const row = READ.indexOf(ROWS[Math.floor((y - box.top) / box.line)]);
      return row >= 0 && column >= 0 && column < size ? [row, column] : null;
    },
    (to, relative) => {
      const next = relative ? cursor.map((c, i) => c + to[i]) : to;
      const most = [READ.length - 1, size - 1];
      const kept = next.map((c, i) => Math.min(most[i], Math.max(0, c)));
      if (kept.join() === cursor.join() && !relative) return;
      cursor = kept;
      stage.redraw();
    },
  );

  // ---- the mathematics ---------------------------------------------------------------------
  function compute({ form, row, column, value, gamma, step, seed }) {
    const { P, r, start, features } = data.chain;
    const context = core.sampleContext(P, r, start, size - 1, seed);
    const empty = new Array(size).fill(0);
    const set = empty.map((_, j) => (j === column ? value : 0));
    const prompt = {
      X: context.states.map((s) => features[s]),
      rewards: context.rewards,
      target: row === "target" ? set : empty,
      current: row === "current" ? set : empty,
      gamma,
      alpha: 1,
      sharpness: data.sharpness,
      layers: data.layers,
    };
    const runs = { shift: shifting.trace(prompt, "shift"), dual: shifting.trace(prompt, "dual") };
    const plain = shifting.trace({ ...prompt, target: empty, current: empty }, "shift");
    const done = Math.floor(step / 2);
    const halfway = step % 2 === 1; // attention has written, nothing has moved yet
    const run = runs[form];
    const apart = runs.shift.map((now, l) => core.distance(now.current, runs.dual[l].current));
    return {
      context,
      runs,
      plain,
      apart,
      done,
      halfway,
      gamma,
      form,
      target: run[done].target,
      current: run[halfway ? done + 1 : done].current,
      gain: halfway ? run[done + 1].gain : null,
      moved: halfway ? null : run[done].moved,
      offset: halfway ? null : shifting.offsets(run[done].target, run[done].current, gamma, size - 1),
      // Rounding leaves some 1e-16 behind: that is no parting.
      parting: apart.findIndex((d) => d > 1e-9),
    };
  }

  // ---- the pictures ------------------------------------------------------------------------
  function drawGrid(now, arrives) {
    const { svg, begin, describe } = grid;
    const { width } = begin(34 * ROWS.length + 12);
    const left = width > 500 ? 110 : 46;
    const cell = Math.min(90, (width - left) / size);
    box = { left, top: 6, cell, line: 34 };
    const at = (name, j) => [box.left + (j + 0.5) * cell, box.top + (ROWS.indexOf(name) + 0.5) * 34];
    const text = (name, j, content, className, more = {}) => {
      const [x, y] = at(name, j);
      return label(x, y, content, { class: className, "text-anchor": "middle", dy: ".32em", ...more });
    };
    const titles = {
      state: ["state", ""],
      reward: ["reward", "R"],
      target: ["target", "b"],
      current: ["current", "c"],
      offset: ["offset", "e"],
    };
    for (const [name, [long, symbol]] of Object.entries(titles)) {
      const y = at(name, 0)[1];
      const full = width > 500 && symbol ? `${long} ${symbol}` : long;
      svg.append(label(0, y, full, { class: "ictd-name", dy: ".32em" }));
    }
    const written = { target: now.moved, current: now.gain };
    for (const name of ["reward", "target", "current"]) {
      for (let j = 0; j < size; j++) {
        const [x, y] = at(name, j);
        svg.append(
          shape("rect", {
            class: `ictd-cell${written[name] ? " ictd-written" : ""}`,
            x: (x - cell / 2 + 1.5).toFixed(1),
            y: y - 15.5,
            width: (cell - 3).toFixed(1),
            height: 31,
            rx: 3,
          }),
        );
      }
    }
    const contents = {
      state: now.context.states,
      reward: now.context.rewards.map(fixed),
      target: now.target.map(fixed),
      current: now.current.map(fixed),
      offset: now.offset ? now.offset.map(fixed) : [],
    };
    for (const [name, row] of Object.entries(contents)) {
      row.forEach((content, j) => {
        const wrong = name === "offset" && Math.abs(now.offset[j]) > 1e-9;
        svg.append(text(name, j, content, wrong ? "ictd-off" : "ictd-entry"));
      });
    }
    // What attention adds falls into the current row; what moves, moves one column back.
    const drop = now.gain || now.moved;
    if (drop) {
      drop.forEach((amount, j) => {
        if (now.moved && j + 1 === size) return;
        const [x, y] = at("lane", j);
        const end = at(now.gain ? "current" : "target", j);
        const start = now.gain ? [x, y] : at("current", j + 1);
        const [down, tip] = now.gain ? [1, end[1] - 16] : [-1, end[1] + 16];
        svg.append(
          line([[x, y + 8 * down], [x, tip]], "ictd-arrow"),
          line([[x - 3, tip - 4 * down], [x, tip], [x + 3, tip - 4 * down]], "ictd-arrow"),
        );
        if (now.moved) {
          const from = [start[0] - 0.16 * cell, start[1] - 17];
          svg.append(line([from, [x + 0.34 * cell, y + 9]], "ictd-arrow"));
        }
        const sign = now.form === "dual" || now.gain ? (amount < 0 ? "" : "+") : "";
        const token = text("lane", j, sign + fixed(amount), "ictd-token");
        if (arrives && now.moved) {
          token.classList.add("ictd-travel");
          token.style.setProperty("--ictd-dx", `${start[0] - x}px`);
          token.style.setProperty("--ictd-dy", `${start[1] - y}px`);
        }
        svg.append(token);
      });
    }
    const lane = at("lane", 0)[1];
    const says = now.gain ? "adds" : now.moved ? `γ·${now.form === "shift" ? "c" : "added"}` : "";
    svg.append(label(0, lane, says, { class: "ictd-name", dy: ".32em" }));
    const [cx, cy] = at(READ[cursor[0]], cursor[1]);
    svg.append(
      shape("rect", {
        class: "ictd-cursor",
        x: cx - cell / 2 + 0.5,
        y: cy - 16.5,
        width: cell - 1,
        height: 33,
        rx: 4,
      }),
    );
    describe(
      `Target row: ${contents.target.join(", ")}. Current row: ${contents.current.join(", ")}.`,
    );
    readout.textContent = explain(now);
  }

  function explain(now) {
    const [name, j] = [READ[cursor[0]], cursor[1]];
    const { gamma, target, current, context } = now;
    const state = `S${sub(j)} = ${context.states[j]}`;
    const last = j === size - 1;
    if (name === "reward") {
      return last
        ? `${state} is the query: nothing was seen to follow it, so there is no reward.`
        : `R${sub(j + 1)} = ${fixed(context.rewards[j])}, paid on leaving ${state}.`;
    }
    if (name === "current") return `c${sub(j)} = ${number(current[j])}: what ${state} is held to be worth.`;
    if (last) return `b${sub(j)} = ${number(target[j])}. No source stands here: this entry is never read.`;
    const due = gamma * current[j + 1];
    const parts = `γ·c${sub(j + 1)} = ${number(due)}`;
    if (now.halfway) return `b${sub(j)} = ${number(target[j])} is still the old target; ${parts} by now.`;
    const e = now.offset[j];
    return Math.abs(e) > 1e-9
      ? `b${sub(j)} = ${number(target[j])}, but ${parts}: the offset is e${sub(j)} = ${number(e)}.`
      : `b${sub(j)} = ${parts}: the offset is 0.`;
  }

  function drawChart(now) {
    const { svg, begin, describe } = chart;
    const { width, height } = begin(210);
    const frame = { left: 40, top: 22, right: width - 12, bottom: height - 40 };
    const query = (run) => run.map(({ current }) => current[size - 1]);
    const [one, two, plain] = [query(now.runs.shift), query(now.runs.dual), query(now.plain)];
    const all = [0, ...one, ...two, ...plain];
    const pad = 0.08 * (Math.max(...all) - Math.min(...all)) || 1;
    const [low, high] = [Math.min(...all) - pad, Math.max(...all) + pad];
    const y = linear([low, high], [frame.bottom, frame.top]);
    const x = linear([0, data.layers], [frame.left + 6, frame.right]);
    const here = now.done + (now.halfway ? 0.5 : 0);
    svg.append(
      axes(
        frame,
        one.map((_, l) => ({ at: x(l), text: l })),
        ticks(low, high, 5).map((v) => ({ at: y(v), text: number(v) })),
        "layer",
        "current value of the last column",
      ),
      line([[x(here), frame.top], [x(here), frame.bottom]], "ictd-here"),
      line(two.map((v, l) => [x(l), y(v)]), "ictd-limit-line"),
      line(one.map((v, l) => [x(l), y(v)]), "ictd-now-line"),
      ...plain.map((v, l) => mark("bar", x(l), y(v), "ictd-true")),
      ...two.map((v, l) => mark("diamond", x(l), y(v), "ictd-limit")),
      ...one.map((v, l) => mark("dot", x(l), y(v), "ictd-now")),
    );
    const end = data.layers;
    describe(
      `After ${end} layers ${number(one[end])} with one head and a shift, ` +
        `${number(two[end])} with two heads, ${number(plain[end])} from an empty memory.`,
    );
  }

  let last = null;
  return (state) => {
    const now = compute(state);
    drawGrid(now, last !== null && state.step === last + 1);
    drawChart(now);
    last = state.step;

    const doing = now.halfway
      ? `Layer ${now.done + 1}: attention adds to every current value. The targets are still old.`
      : now.done === 0
        ? `The prompt, before layer 1 of ${names[now.form]}.`
        : now.form === "shift"
          ? `Layer ${now.done}: the shift drops the old targets and moves γ times the new current row in.`
          : `Layer ${now.done}: the second head adds γ times what the next column was given.`;
    const off = now.offset ? core.largest(now.offset) : 0;
    const offset = now.offset ? ` Largest offset: ${off > 1e-9 ? number(off) : 0}.` : "";
    const parting =
      now.parting < 0
        ? " The two forms agree in all layers."
        : ` The values of the two forms differ from layer ${now.parting} on.`;
    return { summary: doing + offset + parting };
  };
};
figures.shift.mathematics = shifting;
