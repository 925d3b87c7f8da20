// Beside a link within the book, what it leads to: a statement, an equation, a definition, a figure.
// For readers with a mouse, and for the keyboard's focus. On a touch screen a link is just followed.
// The texts come in scripts, one for each page (book/_ext/previews.py), when the first is needed.
"use strict";

window.bookPreviews = {};

(() => {
  const LINKS = "article a.reference.internal[href*='#']:not(:has(.viewcode-link)), article a.sphinx-codeautolink-a";
  const OPENS = 350; // ms: a pointer that crosses a link asks for nothing
  const CLOSES = 250; // ms: time to move from the link to the panel
  const GAP = 8; // px
  const ROOT = new URL(document.documentElement.dataset.content_root || "./", location.href);

  const loading = {};
  let panel, shown, wanted, timer;

  const placeOf = (link) => {
    const { pathname, hash } = new URL(link.href);
    if (!pathname.startsWith(ROOT.pathname) || !hash) return null;
    const page = decodeURI(pathname.slice(ROOT.pathname.length)).replace(/\.html$/, "");
    return { page, id: decodeURIComponent(hash.slice(1)) };
  };

  const load = (page) => {
    loading[page] ??= new Promise((done) => {
      const script = document.createElement("script");
      script.src = new URL(`_static/previews/${page.replaceAll("/", "-")}.js`, ROOT);
      script.onload = script.onerror = done;
      document.head.append(script);
    });
    return loading[page];
  };

  const make = () => {
    panel = document.createElement("div");
    panel.id = "book-preview";
    panel.className = "bd-article";
    panel.hidden = true;
    panel.addEventListener("pointerenter", () => clearTimeout(timer));
    panel.addEventListener("pointerleave", () => leave());
    document.body.append(panel);
  };

  const fill = async (html, room) => {
    panel.style.setProperty("--room", `${room}px`);
    panel.innerHTML = html;
    for (const image of panel.querySelectorAll("img[src^='root:']")) {
      image.src = new URL(image.getAttribute("src").slice("root:".length), ROOT);
    }
    // It must have its size before it is given a place; unseen, it has one.
    panel.style.visibility = "hidden";
    panel.hidden = false;
    if (panel.querySelector(".math")) await MathJax.typesetPromise([panel]);
    await Promise.all([...panel.querySelectorAll("img")].map((image) => image.decode().catch(() => {})));
    for (const box of panel.querySelectorAll("div.math")) {
      // What would have to be scrolled is drawn smaller.
      const fits = box.clientWidth / box.scrollWidth;
      if (fits < 1) box.style.fontSize = `${Math.floor(98 * fits)}%`;
    }
    panel.classList.toggle("goes-on", panel.scrollHeight > panel.clientHeight + 1);
  };

  // The line that the link is on where the pointer is, and what room is above and below it.
  const around = (link, x) => {
    const lines = [...link.getClientRects()];
    const line = lines.find(({ left, right }) => left <= x && x <= right) ?? lines[0];
    return { line, above: line.top - 1.5 * GAP, below: innerHeight - line.bottom - 1.5 * GAP };
  };

  // Below the line, or above it where there is more room.
  const put = (link, x) => {
    const { line, above, below } = around(link, x);
    const { width, height } = panel.getBoundingClientRect();
    const top = height <= below || below >= above ? line.bottom + GAP / 2 : line.top - height - GAP / 2;
    const left = Math.max(GAP, Math.min(line.left, document.documentElement.clientWidth - width - GAP));
    panel.style.left = `${left + scrollX}px`;
    panel.style.top = `${top + scrollY}px`;
    panel.style.visibility = "";
  };

  const close = () => {
    clearTimeout(timer);
    wanted = null;
    if (!shown) return;
    shown.removeAttribute("aria-describedby");
    shown = null;
    panel.hidden = true;
    panel.replaceChildren();
  };

  const closeSoon = () => {
    clearTimeout(timer);
    timer = setTimeout(close, CLOSES);
  };

  // What the keyboard opened stays as long as its link has the focus.
  const leave = () => {
    wanted = null;
    if (shown?.matches(":focus-visible")) clearTimeout(timer);
    else closeSoon();
  };

  const open = async (link, x, byKeyboard) => {
    const place = placeOf(link);
    if (!place) return;
    await load(place.page);
    const html = bookPreviews[place.page]?.[place.id];
    if (wanted !== link || !html || (html.includes("math notranslate") && !window.MathJax?.typesetPromise)) return;
    if (!panel) make();
    if (shown) shown.removeAttribute("aria-describedby");
    shown = link;
    const { above, below } = around(link, x);
    await fill(html, Math.max(above, below));
    if (shown !== link) return;
    put(link, x);
    // A definition is read out with the link whose focus shows it. A statement or an equation is left to be
    // followed: it would be read, symbol by symbol, at each step from link to link.
    const short = byKeyboard && panel.querySelector(".preview-title") && panel.textContent.length < 300;
    panel.setAttribute("role", "tooltip");
    panel.toggleAttribute("aria-hidden", false);
    if (short) link.setAttribute("aria-describedby", panel.id);
    else panel.setAttribute("aria-hidden", "true");
  };

  const openSoon = (link, x, byKeyboard) => {
    clearTimeout(timer);
    if (link === shown) return;
    wanted = link;
    timer = setTimeout(() => open(link, x, byKeyboard), OPENS);
  };

  const linkOf = (event) => event.target.closest?.(LINKS);

  const start = () => {
    // The browser's own tooltip would stand over it, with a name that the panel tells as well.
    for (const link of document.querySelectorAll(LINKS)) link.removeAttribute("title");

    document.addEventListener("pointerover", (event) => {
      const link = event.pointerType === "touch" ? null : linkOf(event);
      if (link) openSoon(link, event.clientX, false);
    });
    document.addEventListener("pointerout", (event) => {
      const link = linkOf(event);
      if (link && !link.contains(event.relatedTarget)) leave();
    });
    document.addEventListener("focusin", (event) => {
      const link = linkOf(event);
      if (link?.matches(":focus-visible")) openSoon(link, link.getBoundingClientRect().left, true);
    });
    document.addEventListener("focusout", (event) => linkOf(event) && close());
    document.addEventListener("click", close);
    document.addEventListener("keydown", (event) => event.key === "Escape" && close());
  };

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
