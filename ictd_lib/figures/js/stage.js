// What every figure that moves has in common: its controls, its panels, what it says to a
// screen reader, and where its numbers live. A figure itself only draws.
//
//   figures[name] = (stage, data) => (state) => ({ summary, alarm })
//
// `stage.panel(...)` gives it places to draw on; the function that it returns is called when a
// control or the width has changed. `data` never changes. The controls come from Python
// (ictd_lib.figures.controls), so their ranges and names are written down once.

const figures = {};

const stage = (() => {
  const { element, shape, number } = plot;
  let mounted = 0; // makes the ids of one page distinct

  // The numbers of a figure on a static page. In a live notebook a widget's model takes its
  // place (see modelStore); both have get, set and onChange.
  function localStore(initial) {
    const state = { ...initial };
    const listeners = [];
    return {
      get: (key) => state[key],
      set: (key, value) => {
        state[key] = value;
        listeners.forEach((listener) => listener());
      },
      onChange: (listener) => listeners.push(listener),
    };
  }

  // An anywidget model: what the reader moves reaches Python, and the other way round.
  function modelStore(model, keys) {
    return {
      get: (key) => model.get(key),
      set: (key, value) => {
        model.set(key, value);
        model.save_changes();
      },
      onChange: (listener) => keys.forEach((key) => model.on(`change:${key}`, listener)),
      forget: (listener) => keys.forEach((key) => model.off(`change:${key}`, listener)),
    };
  }

  // ---- controls ------------------------------------------------------------------------

  // Each returns {node, show}; show() writes the stored number into the control.
  const controls = {
    slider({ key, label, low, high, step, log, whole, play }, store, id) {
      // On a logarithmic slider the browser counts steps, from 0: so both ends can be reached.
      const steps = log ? Math.round(Math.log10(high / low) / step) : 1;
      const place = (x) => (log ? (steps * Math.log(x / low)) / Math.log(high / low) : x);
      const read = (p) => (log ? Number((low * (high / low) ** (p / steps)).toPrecision(3)) : p);
      const input = element("input", {
        type: "range",
        id,
        min: place(low),
        max: place(high),
        step: log ? 1 : step,
      });
      const output = element("output", { for: id, "aria-live": "off" });
      input.addEventListener("input", () => {
        const x = read(Number(input.value));
        store.set(key, Math.min(high, Math.max(low, whole ? Math.round(x) : x)));
      });
      const show = () => {
        const text = number(store.get(key));
        input.value = place(store.get(key));
        input.setAttribute("aria-valuetext", text);
        output.textContent = text;
      };
      const name = element("label", { for: id }, label);
      const kind = `ictd-control${play ? " ictd-wide" : ""}`;
      return { node: element("div", { class: kind }, name, output, input), show };
    },

    choice({ key, label, options }, store, id) {
      const select = element(
        "select",
        { id },
        ...options.map(([value, text]) => element("option", { value }, text)),
      );
      select.addEventListener("change", () => store.set(key, select.value));
      const name = element("label", { for: id }, label);
      const show = () => (select.value = store.get(key));
      return { node: element("div", { class: "ictd-control" }, name, select), show };
    },

    // A button that asks for another random draw: the next seed.
    again({ key, label }, store) {
      const node = button(label, () => store.set(key, store.get(key) + 1));
      return { node, show: () => {} };
    },
  };

  function button(text, act) {
    const node = element("button", { type: "button" }, text);
    node.addEventListener("click", act);
    return node;
  }

  // Play and step through one whole-numbered slider, a step every `pace` milliseconds. A reader who asked for less motion gets
  // only the step.
  function player({ key, low, high, step }, store, pace = 150) {
    const still = window.matchMedia("(prefers-reduced-motion: reduce)");
    let timer = null;
    const advance = () => store.set(key, store.get(key) >= high ? low : store.get(key) + step);
    const play = button("Play", () => (timer ? stop() : start()));
    const one = button("One step", () => {
      stop();
      advance();
    });
    function stop() {
      clearInterval(timer);
      timer = null;
      play.textContent = "Play";
      store.set(key, store.get(key)); // now that it rests, say where
    }
    function start() {
      if (store.get(key) >= high) store.set(key, low);
      play.textContent = "Pause";
      timer = setInterval(() => (store.get(key) >= high ? stop() : advance()), pace);
    }
    const heed = () => {
      play.hidden = still.matches;
      if (still.matches && timer) stop();
    };
    still.addEventListener("change", heed);
    heed();
    const end = () => {
      clearInterval(timer);
      still.removeEventListener("change", heed);
    };
    return { nodes: [play, one], playing: () => timer !== null, stop, end };
  }

  // ---- panels --------------------------------------------------------------------------

  // A titled picture. `begin(height)` empties it and gives its width; `describe` names it.
  function panel(title, className = "") {
    const svg = shape("svg", { role: "img" });
    const node = element("div", { class: `ictd-panel ${className}` });
    node.append(element("p", { class: "ictd-title" }, title), svg);
    return {
      node,
      svg,
      begin(height) {
        const width = Math.max(240, Math.floor(node.clientWidth) || 340);
        const size = typeof height === "function" ? height(width) : height;
        svg.replaceChildren();
        svg.setAttribute("viewBox", `0 0 ${width} ${size}`);
        svg.setAttribute("height", size);
        return { width, height: size };
      },
      describe: (text) => svg.setAttribute("aria-label", `${title}. ${text}`),
      // Lets keys, mouse and touch point at a cell: place(x, y) is [row, column] or null, and
      // moved([row, column], relative) hears of a cell, or (from the arrow keys) of a step.
      pointAt(name, place, moved) {
        node.setAttribute("tabindex", "0");
        node.setAttribute("role", "application");
        node.setAttribute("aria-label", name);
        const steps = {
          ArrowUp: [-1, 0],
          ArrowDown: [1, 0],
          ArrowLeft: [0, -1],
          ArrowRight: [0, 1],
        };
        node.addEventListener("keydown", (event) => {
          if (!steps[event.key]) return;
          event.preventDefault();
          moved(steps[event.key], true);
        });
        const point = (event) => {
          const corner = svg.getBoundingClientRect();
          const cell = place(event.clientX - corner.left, event.clientY - corner.top);
          if (cell) moved(cell, false);
        };
        svg.addEventListener("pointermove", point);
        svg.addEventListener("pointerdown", point);
      },
    };
  }

  // ---- the whole figure ----------------------------------------------------------------

  // Builds the figure `name` inside `root` (a <figure>), and returns a function that ends it.
  function mount(root, name, data, store) {
    mounted += 1;
    const prefix = `ictd-${mounted}`;
    const initial = Object.fromEntries(data.controls.map(({ key }) => [key, store.get(key)]));
    const parts = data.controls.map((c) => controls[c.kind](c, store, `${prefix}-${c.key}`));
    const played = data.controls.find((c) => c.play);
    const playing = played ? player(played, store, data.pace) : { nodes: [], playing: () => false, stop() {}, end() {} };
    const reset = button("Reset", () => {
      playing.stop();
      Object.entries(initial).forEach(([key, value]) => store.set(key, value));
    });

    const isButton = (part) => part.node.tagName === "BUTTON";
    const fields = parts.filter((part) => !isButton(part)).map((part) => part.node);
    const buttons = [...playing.nodes, ...parts.filter(isButton).map((part) => part.node), reset];
    const panels = element("div", { class: "ictd-panels" });
    const status = element("p", { class: "ictd-status", role: "status" });
    const caption = element("figcaption", { id: `${prefix}-name` }, data.title);
    root.setAttribute("aria-labelledby", caption.id);
    root.classList.add("ictd-figure", "ictd-live");
    root.replaceChildren(
      caption,
      element("div", { class: "ictd-controls" }, ...fields),
      element("div", { class: "ictd-buttons" }, ...buttons),
      status,
      panels,
    );

    const draw = figures[name](
      {
        panel(title, className) {
          const made = panel(title, className);
          panels.append(made.node);
          return made;
        },
        redraw: () => later(),
      },
      data,
    );

    let asked = 0; // at most one drawing a frame, however many changes there were
    let saying = 0;
    function later() {
      clearTimeout(saying); // what was about to be said is no longer what is drawn
      status.setAttribute("aria-busy", "true");
      asked = asked || requestAnimationFrame(redraw);
    }
    function redraw() {
      asked = 0;
      parts.forEach((part) => part.show());
      const state = Object.fromEntries(data.controls.map(({ key }) => [key, store.get(key)]));
      const { summary, alarm } = draw(state);
      root.classList.toggle("ictd-alarm", Boolean(alarm));
      // A screen reader hears where the figure came to rest, not every frame on the way.
      clearTimeout(saying); // the first drawing, and none after it, comes without a call of later()
      status.setAttribute("aria-live", playing.playing() ? "off" : "polite");
      saying = setTimeout(
        () => {
          status.textContent = summary;
          status.removeAttribute("aria-busy");
        },
        playing.playing() ? 0 : 200,
      );
    }
    store.onChange(later);
    let width = 0;
    const observer = new ResizeObserver(() => {
      if (panels.clientWidth !== width) {
        width = panels.clientWidth;
        later();
      }
    });
    observer.observe(panels);
    redraw();

    return () => {
      playing.end();
      observer.disconnect();
      cancelAnimationFrame(asked);
      clearTimeout(saying);
      if (store.forget) store.forget(later);
    };
  }

  // The entry point of anywidget: one view of a model that lives in a notebook.
  function render({ model, el }) {
    const data = model.get("data");
    const root = document.createElement("figure");
    el.append(root);
    const keys = data.controls.map(({ key }) => key);
    return mount(root, model.get("figure"), data, modelStore(model, keys));
  }

  // The entry point of a static page: every <figure data-figure> that holds a still picture.
  // Where one fails, its still picture stays.
  function mountAll() {
    for (const root of document.querySelectorAll("figure.ictd-figure[data-figure]")) {
      const { data, state } = JSON.parse(root.dataset.props);
      const still = [...root.childNodes];
      try {
        mount(root, root.dataset.figure, data, localStore(state));
      } catch (error) {
        root.classList.remove("ictd-live");
        root.removeAttribute("aria-labelledby");
        root.replaceChildren(...still);
        console.error(error);
      }
    }
  }

  return { localStore, modelStore, mount, mountAll, render };
})();
