// Chapter 2: the prompt of the Transformer with two heads, layer by layer, head by head.

// The Transformer, on plain arrays. A prompt is a matrix with a column for each state; its rows
// are d features, reward, target memory, current value. The last column is the query.
const dualHead = (() => {
  function prompt({ states, rewards }, X) {
    const features = X[0].map((_, i) => states.map((s) => X[s][i]));
    const blank = states.map(() => 0);
    return [...features, [...rewards, 0], blank, [...blank]];
  }

  // W[i][j]: how much column j listens to column i. Columns sum to 1, and the query's row is 0,
  // unless it may be a source.
  function attention(Z, sharpness, queryIsSource) {
    const features = Z.slice(0, -3);
    const columns = features[0].map((_, j) => features.map((row) => row[j]));
    const listens = columns.map((_, i) => (queryIsSource || i < columns.length - 1 ? 1 : 0));
    const W = core.zeros(columns.length, columns.length);
    columns.forEach((query, j) => {
      const scores = columns.map((source) => sharpness * core.dot(source, query));
      core.softmax(scores, listens).forEach((weight, i) => (W[i][j] = weight));
    });
    return W;
  }

  // One layer, and all that happens in it:
  //   weights    W
  //   read       row d + 3 of V Z, what the heads read from each column
  //   current    row d + 3 of V Z W, what the current-value head writes
  //   unshifted  gamma times it; target = unshifted Pi, what the target-value head writes
  function layer(Z, { sharpness, gamma, alpha, queryIsSource }) {
    const [reward, target, current] = Z.slice(-3);
    const weights = attention(Z, sharpness, queryIsSource);
    const read = reward.map((R, i) => alpha * (R + target[i] - current[i]));
    const written = reward.map((_, j) => core.dot(read, weights.map((row) => row[j])));
    const unshifted = written.map((x) => gamma * x);
    const shifted = unshifted.map((_, j) => (j + 1 < unshifted.length ? unshifted[j + 1] : 0));
    const add = (row, more) => row.map((x, j) => x + more[j]);
    const next = [...Z.slice(0, -2), add(target, shifted), add(current, written)];
    return { Z, weights, read, current: written, unshifted, target: shifted, next };
  }

  function run(Z, options, layers) {
    const done = [];
    for (let l = 0; l < layers; l++) done.push(layer(l ? done[l - 1].next : Z, options));
    return done;
  }

  return { prompt, attention, layer, run };
})();

figures["dual-head"] = (stage, data) => {
  const { element, shape, label, number } = plot;
  const promptPanel = stage.panel("The prompt", "ictd-wide ictd-grid");
  const attendPanel = stage.panel("What one column attends to", "ictd-wide ictd-attend");
  const headPanel = stage.panel("What the two heads write", "ictd-wide ictd-heads");
  const readout = element("p", { class: "ictd-readout", "aria-live": "polite" });
  const sum = element("p", { class: "ictd-readout" });
  promptPanel.node.append(readout);
  attendPanel.node.append(sum);

  const d = data.features[0].length;
  const layers = data.layers;
  const [ATTEND, CURRENT, TARGET] = [1, 2, 3]; // the phases of a layer; 0 shows its prompt
  const low = (n) => [...String(n)].map((c) => "₀₁₂₃₄₅₆₇₈₉"[Number(c)]).join("");
  const names = [
    ...data.features[0].map((_, i) => `x${low(i + 1)}`),
    "reward",
    "target",
    "value",
  ];

  // ---- the mathematics ------------------------------------------------------------------
  function compute(state) {
    const { P, r, start, features, context, n } = data;
    const tau =
      state.seed === 0 ? context : core.sampleContext(P, r, start, n, state.seed);
    const options = { ...state, queryIsSource: state.last_column === "source" };
    const done = dualHead.run(dualHead.prompt(tau, features), options, layers);
    const l = Math.min(layers, Math.floor(state.step / 4));
    const phase = state.step % 4;
    // The algorithm of chapter 1, which knows of no prompt.
    const scores = core.scores(features, state.sharpness);
    const iterates = core.iterateLiteral(tau, scores, state.gamma, state.alpha, layers);
    const values = tau.states.map((s) => iterates[l][s]);
    const Z = l < layers ? done[l].Z : done[layers - 1].next;
    return {
      ...tau,
      Z,
      l,
      phase,
      now: l < layers ? done[l] : null,
      off: core.distance(Z[d + 2], values),
      // One scale of colour for all layers, so that a row can be seen to grow.
      scale: Math.max(...done.map(({ next }) => core.largest(next.slice(d).flat()))) || 1,
    };
  }

  // ---- the grid -------------------------------------------------------------------------
  const HEIGHT = 26;
  let cursor = [d + 2, 0];
  let grid = { left: 54, top: 54, cell: 40, columns: 1 };

  promptPanel.pointAt(
    "The prompt. The arrow keys move from cell to cell.",
    (x, y) => {
      const row = Math.floor((y - grid.top) / HEIGHT);
      const column = Math.floor((x - grid.left) / grid.cell);
      const inside = row >= 0 && row < d + 3 && column >= 0 && column < grid.columns;
      return inside ? [row, column] : null;
    },
    (to, relative) => {
      const next = relative ? cursor.map((c, i) => c + to[i]) : to;
      const most = [d + 2, grid.columns - 1];
      const kept = next.map((c, i) => Math.min(most[i], Math.max(0, c)));
      if (kept.join() === cursor.join()) return;
      cursor = kept;
      stage.redraw();
    },
  );

  const digits = (x) => {
    const size = Math.abs(x);
    const text = size < 9.995 ? x.toFixed(2) : size < 99.95 ? x.toFixed(1) : x.toFixed(0);
    return Number(text) === 0 ? "0" : text.replace("-", "−");
  };

  // A row of numbers as coloured cells; null leaves it empty, and a null in it is a dash.
  function cells(values, top, name, scale) {
    const row = shape("g", { class: "ictd-cells" });
    row.append(label(grid.left - 6, top + HEIGHT / 2, name, { "text-anchor": "end", dy: ".35em" }));
    for (let j = 0; j < grid.columns; j++) {
      const x = grid.left + j * grid.cell;
      const value = values ? values[j] : 0;
      row.append(
        shape("rect", {
          class: value < 0 ? "ictd-minus" : "ictd-plus",
          x: x.toFixed(2),
          y: top,
          width: grid.cell.toFixed(2),
          height: HEIGHT,
          "fill-opacity": (0.45 * Math.min(1, Math.abs(value) / scale)).toFixed(3),
        }),
      );
      if (!values) continue;
      row.append(
        label(x + grid.cell / 2, top + HEIGHT / 2, value === null ? "–" : digits(value), {
          "text-anchor": "middle",
          dy: ".35em",
        }),
      );
    }
    return row;
  }

  const frame = (className, row, column, width) =>
    shape("rect", {
      class: className,
      x: (grid.left + column * grid.cell).toFixed(2),
      y: row,
      width: (width * grid.cell).toFixed(2),
      height: HEIGHT,
    });

  function heading(svg, states, top) {
    const at = (j) => grid.left + (j + 0.5) * grid.cell;
    states.forEach((s, j) => {
      svg.append(
        label(at(j), top, `S${low(j)}`, { "text-anchor": "middle" }),
        label(at(j), top + 15, s, { "text-anchor": "middle" }),
      );
    });
    svg.append(
      label(grid.left - 6, top + 15, "state", { "text-anchor": "end" }),
      label(grid.left + grid.columns * grid.cell, top - 15, "query", { "text-anchor": "end" }),
    );
  }

  function drawPrompt({ Z, states, rewards, l, phase, scale }, { gamma }) {
    const { svg, begin, describe } = promptPanel;
    const { width } = begin(54 + (d + 3) * HEIGHT + 4);
    const cell = Math.min(84, (width - 56) / states.length);
    grid = { left: 54, top: 54, cell, columns: states.length };
    cursor = [cursor[0], Math.min(cursor[1], states.length - 1)];
    promptPanel.node.firstChild.textContent = `The prompt Z${low(l)}`;
    heading(svg, states, 28);
    const top = (row) => grid.top + row * HEIGHT;
    Z.forEach((row, i) => svg.append(cells(row, top(i), names[i], i < d ? 1 : scale)));
    const touched = { 0: l ? [d + 1, d + 2] : [], [CURRENT]: [d + 2], [TARGET]: [d + 1] };
    for (const row of touched[phase] || []) {
      svg.append(frame("ictd-framed", top(row), 0, states.length));
    }
    svg.append(frame("ictd-cursor", top(cursor[0]), cursor[1], 1));
    describe(
      `${states.length} columns, ${d + 3} rows. Target row: ${Z[d + 1].map(digits).join(", ")}. ` +
        `Value row: ${Z[d + 2].map(digits).join(", ")}.`,
    );

    const [row, j] = cursor;
    const n = rewards.length;
    const value = number(Z[row][j]);
    const S = `S${low(j)}`;
    const text =
      row < d
        ? `Feature ${row + 1} of ${S}, which is state ${states[j]}: ${value}. It never changes.`
        : row === d
          ? j < n
            ? `R${low(j + 1)} = ${value}, received on leaving ${S}. It never changes.`
            : `No reward: nothing was seen to follow ${S}.`
          : row === d + 2
            ? `v${low(l)}(${S}) = ${value}; ${S} is state ${states[j]}.`
            : j < n
              ? `Target ${value} = ${number(gamma)} × ${number(Z[d + 2][j + 1])}, ` +
                `the discounted value one column to the right.`
              : "No target: there is no column to the right.";
    readout.textContent = `Column ${j}. ${text}`;
  }

  function drawAttention({ now, phase, states, scale }, open) {
    const { svg, begin, describe } = attendPanel;
    const tall = 64;
    begin(tall + 3 * HEIGHT + 24);
    const j = cursor[1];
    const name = `S${low(j)}`;
    attendPanel.node.firstChild.textContent = `Attention of column ${j} (${name})`;
    const shown = now && phase >= ATTEND ? now : null;
    const weights = shown && shown.weights.map((row) => row[j]);
    // A masked column has no weight, which is not the same as a weight of 0.
    const masked = (row) => row && row.map((x, i) => (open || i < row.length - 1 ? x : null));
    const products = shown && weights.map((w, i) => w * now.read[i]);
    const box = { left: grid.left, right: grid.left + grid.columns * grid.cell };
    for (const [share, text] of [[0, "0"], [1, "1"]]) {
      const y = 8 + tall * (1 - share);
      svg.append(
        shape("line", { class: "ictd-rule", x1: box.left, x2: box.right, y1: y, y2: y }),
        label(grid.left - 6, y, text, { "text-anchor": "end", dy: ".35em" }),
      );
    }
    (weights || []).forEach((w, i) =>
      svg.append(
        shape("rect", {
          class: "ictd-weight",
          x: (grid.left + (i + 0.2) * grid.cell).toFixed(2),
          y: (8 + tall * (1 - w)).toFixed(2),
          width: (0.6 * grid.cell).toFixed(2),
          height: (tall * w).toFixed(2),
        }),
      ),
    );
    const top = tall + 20;
    svg.append(
      cells(masked(weights), top, "weight", 1),
      cells(shown && now.read, top + HEIGHT, "α × δ", scale),
      cells(masked(products), top + 2 * HEIGHT, "product", scale),
    );
    if (!shown) {
      describe("Nothing yet: attention is the next step of a layer.");
      sum.textContent = now ? "Step on to let the columns attend." : "All layers are done.";
      return;
    }
    const most = weights.indexOf(Math.max(...weights));
    describe(
      `Column ${j} attends most to column ${most}, with ${number(weights[most])}. Weights: ` +
        `${weights.map(digits).join(", ")}.`,
    );
    sum.textContent =
      `The products add up to ${number(now.current[j])}: that is what the heads ` +
      `compute for ${name}, state ${states[j]}.`;
  }

  function drawHeads({ now, phase, scale }) {
    const { svg, begin, describe } = headPanel;
    const gap = 30;
    begin(3 * HEIGHT + gap + 12);
    const [first, second] = [phase >= CURRENT, phase >= TARGET].map((on) => Boolean(now && on));
    const tops = [4, 8 + HEIGHT, 8 + 2 * HEIGHT + gap];
    svg.append(
      cells(first ? now.current : null, tops[0], "to value", scale),
      cells(second ? now.unshifted : null, tops[1], "× γ", scale),
      cells(second ? now.target : null, tops[2], "to target", scale),
    );
    const at = (j) => grid.left + (j + 0.5) * grid.cell;
    const arrows = shape("g", { class: second ? "ictd-arrows" : "ictd-arrows ictd-faint" });
    const [from, to] = [tops[1] + HEIGHT + 3, tops[2] - 3];
    const back = Math.atan2(from - to, grid.cell); // where an arrow comes from
    const barb = (turn) => {
      const [x, y] = [Math.cos(back + turn), Math.sin(back + turn)].map((c) => (7 * c).toFixed(1));
      return `l${x} ${y}`;
    };
    for (let j = 0; j + 1 < grid.columns; j++) {
      const tip = `${at(j).toFixed(1)} ${to}`;
      const d = `M${at(j + 1).toFixed(1)} ${from}L${tip}${barb(0.5)}M${tip}${barb(-0.5)}`;
      arrows.append(shape("path", { d }));
    }
    svg.append(arrows);
    // Where the sum of the column that attends goes.
    const j = cursor[1];
    if (first) svg.append(frame("ictd-cursor", tops[0], j, 1));
    if (second && j > 0) svg.append(frame("ictd-cursor", tops[2], j - 1, 1));
    describe(
      second
        ? `Into the value row: ${now.current.map(digits).join(", ")}. Into the target row, ` +
            `discounted and one column to the left: ${now.target.map(digits).join(", ")}.`
        : first
          ? `Into the value row: ${now.current.map(digits).join(", ")}. Into the target row: nothing yet.`
          : "Nothing yet.",
    );
  }

  return (state) => {
    const result = compute(state);
    drawPrompt(result, state);
    drawAttention(result, state.last_column === "source");
    drawHeads(result);

    const { l, phase, off, scale } = result;
    const j = cursor[1];
    const place = l < layers ? `Layer ${l + 1} of ${layers}` : `After all ${layers} layers`;
    const doing = [
      l === 0
        ? "the prompt is the context; both memory rows are 0."
        : l < layers
          ? "starts from what both heads have written (framed)."
          : "the value row is the answer.",
      `each column attends to the sources that look like it; shown for column ${j}.`,
      `the current-value head writes its sums into the value row.`,
      `the target-value head writes γ times the same sums, one column to the left.`,
    ][phase];
    const runs = off <= 1e-12 * Math.max(1, scale); // up to rounding
    const away = runs ? "" : `${number(off)} away from `;
    const check = `The value row is ${away}iterate ${l} of weighted softmax TD.`;
    return {
      alarm: !runs,
      summary: `${runs ? "" : "⚠ "}${place}: ${doing} ${check}`,
    };
  };
};
figures["dual-head"].mathematics = dualHead;
