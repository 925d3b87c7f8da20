// Drawing by hand: elements, scales, axes and a heat map, in SVG. Colours come from the style
// sheet (classes, never attributes), so a picture follows the theme without being drawn again.

const plot = (() => {
  const SVG = "http://www.w3.org/2000/svg";

  // element("p", {class: "x"}, "text", child, ...); a null child is left out.
  function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) {
      if (value !== null && value !== undefined) node.setAttribute(name, value);
    }
    node.append(...children.filter((child) => child !== null));
    return node;
  }
  const element = (tag, attributes = {}, ...children) =>
    fill(document.createElement(tag), attributes, children);
  const shape = (tag, attributes = {}, ...children) =>
    fill(document.createElementNS(SVG, tag), attributes, children);
  const label = (x, y, text, attributes = {}) => shape("text", { x, y, ...attributes }, text);

  // A number for people: whole ones in full, others to three digits, with a power of ten only
  // where it is needed and a true minus sign.
  function number(x) {
    const size = Math.abs(x);
    let text = String(Number(x.toPrecision(3)));
    if (size >= 1e5 || (size > 0 && size < 1e-3)) {
      const [digits, exponent] = x.toExponential(1).split("e");
      text = `${digits}·10${superscript(Number(exponent))}`;
    } else if (Number.isInteger(x)) text = String(x);
    return text.replace("-", "−");
  }
  const superscript = (n) =>
    [...String(n)].map((c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(c)])).join("");

  const linear = ([a, b], [from, to]) => (x) => from + ((x - a) / (b - a || 1)) * (to - from);

  // Round steps (1, 2 or 5 times a power of ten) inside [low, high].
  function ticks(low, high, count) {
    const rough = (high - low) / count || 1;
    // Numbers that are equal but for rounding: steps between them can't be counted.
    if (rough < 1e-12 * Math.max(Math.abs(low), Math.abs(high))) return [Number(low.toPrecision(12))];
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough) || 10 * power;
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) {
      found.push(Number((k * step).toPrecision(12)));
    }
    return found;
  }

  // Grid lines with their numbers, and the names of the two axes.
  //   box = {left, top, right, bottom}; xs and ys = [{at, text}] in the picture's own units
  function axes(box, xs, ys, xName, yName) {
    return shape(
      "g",
      { class: "ictd-axes" },
      ...ys.map(({ at }) => shape("line", { x1: box.left, x2: box.right, y1: at, y2: at })),
      ...ys.map(({ at, text }) =>
        label(box.left - 6, at, text, { "text-anchor": "end", dy: ".32em" }),
      ),
      ...xs.map(({ at, text }) => label(at, box.bottom + 16, text, { "text-anchor": "middle" })),
      label(box.right, box.bottom + 32, xName, { "text-anchor": "end", class: "ictd-name" }),
      label(0, 12, yName, { class: "ictd-name" }),
    );
  }

  const line = (points, className) =>
    shape("path", {
      class: className,
      d: points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join(""),
    });

  // Marks of one series: "dot", "bar" or "diamond"; a shape as well as a colour for each.
  function mark(kind, x, y, className) {
    if (kind === "dot") return shape("circle", { class: className, cx: x, cy: y, r: 4 });
    const d = {
      bar: `M${x - 8} ${y}h16`,
      tick: `M${x - 4} ${y}h8`,
      diamond: `M${x} ${y - 6}l6 6l-6 6l-6 -6z`,
      up: `M${x} ${y}l5 8h-10z`,
      down: `M${x} ${y}l5 -8h-10z`,
    }[kind];
    return shape("path", { class: className, d });
  }

  // A key under a picture: [[kind, className, text], ...].
  const key = (entries) =>
    element(
      "ul",
      { class: "ictd-key" },
      ...entries.map(([kind, className, text]) => {
        const picture = shape("svg", { width: 20, height: 16, "aria-hidden": "true" });
        const stroke = [[1, 8], [19, 8]];
        picture.append(kind === "line" ? line(stroke, className) : mark(kind, 10, 8, className));
        return element("li", {}, picture, text);
      }),
    );

  // Numbers in [0, 1] as squares, rows downwards; a darker square is a larger number.
  function heatMap(matrix, box, cursor) {
    const cell = (box.right - box.left) / matrix.length;
    const group = shape("g", { class: "ictd-heat" });
    matrix.forEach((row, i) =>
      row.forEach((weight, j) =>
        group.append(
          shape("rect", {
            x: (box.left + j * cell).toFixed(2),
            y: (box.top + i * cell).toFixed(2),
            width: cell.toFixed(2),
            height: cell.toFixed(2),
            "fill-opacity": weight.toFixed(4),
          }),
        ),
      ),
    );
    if (cursor) {
      group.append(
        shape("rect", {
          class: "ictd-cursor",
          x: box.left + cursor[1] * cell,
          y: box.top + cursor[0] * cell,
          width: cell,
          height: cell,
        }),
      );
    }
    return group;
  }

  return { element, shape, label, number, superscript, linear, ticks, axes, line, mark, key, heatMap };
})();
