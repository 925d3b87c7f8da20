// What the theme leaves undone for readers who use a keyboard, a screen reader or the search.
// A classic script without dependencies, so that it also works from file://.
"use strict";

(() => {
  // A box whose content scrolls sideways can be scrolled with the arrow keys only once
  // it has the focus, and is announced only if it has a name.
  const SCROLLERS = [
    ["div.math", "Equation"],
    ["div.highlight > pre", "Code"],
    [".cell_output pre", "Output"],
    [".pst-scrollable-table-container", "Table"],
    [".cell_output .output.text_html", "Output"],
  ];

  const nameScrollers = () => {
    for (const [selector, name] of SCROLLERS) {
      for (const box of document.querySelectorAll(selector)) {
        if (box.scrollWidth > box.clientWidth + 1) {
          box.tabIndex = 0;
          box.setAttribute("role", "group");
          box.setAttribute("aria-label", `${name}, scrolls sideways`);
        } else {
          for (const attribute of ["tabindex", "role", "aria-label"]) box.removeAttribute(attribute);
        }
      }
    }
  };

  // The theme's icon buttons name themselves only by a title, which its tooltips move away.
  const nameButtons = () => {
    for (const button of document.querySelectorAll("button[title]:not([aria-label])")) {
      button.setAttribute("aria-label", button.title);
    }
    // A name must contain the words that are seen ("Search Ctrl + K"): here they are the name.
    for (const handle of document.querySelectorAll(".search-button-field, details.hide > summary")) {
      handle.removeAttribute("aria-label");
    }
  };

  // The role that docutils gives an entry of the bibliography is no longer in ARIA.
  const nameCitations = () => {
    for (const entry of document.querySelectorAll("[role=doc-biblioentry]")) entry.setAttribute("role", "listitem");
  };

  // Search shows a few words around the one that was found: of the article alone (the theme's
  // main element starts with its buttons), as a reader sees them, and where the word stands
  // (Sphinx looks for its stem, "stationari", which no text contains).
  const GREEK = {
    α: "alpha", β: "beta", γ: "gamma", δ: "delta", ε: "varepsilon", ζ: "zeta", η: "eta", θ: "theta",
    κ: "kappa", λ: "lambda", μ: "mu", ν: "nu", ξ: "xi", π: "pi", ρ: "rho", σ: "sigma", τ: "tau",
    φ: "varphi", ϕ: "phi", χ: "chi", ψ: "psi", ω: "omega", Γ: "Gamma", Δ: "Delta", Φ: "Phi", Σ: "Sigma",
  };
  const LETTERS = Object.fromEntries(Object.entries(GREEK).map(([letter, name]) => [name, letter]));
  const EXCERPT = 240;

  // \(\gamma v(s)\) reads well as "γ v(s)"; a formula that needs more than letters is left out.
  const plainFormula = (tex) => {
    const plain = tex
      .replace(/^\\\(|\\\)$/g, "")
      .replace(/\\([A-Za-z]+)/g, (command, name) => LETTERS[name] ?? command);
    return /\\|[{}&^]/.test(plain) ? "…" : plain;
  };

  const articleText = (html, anchor) => {
    const page = new DOMParser().parseFromString(html, "text/html");
    const article = page.querySelector("article");
    if (!article) return "";
    for (const extra of article.querySelectorAll(".headerlink, script, style, noscript")) extra.remove();
    for (const formula of article.querySelectorAll("div.math")) formula.textContent = " … ";
    for (const formula of article.querySelectorAll("span.math")) {
      formula.textContent = plainFormula(formula.textContent);
    }
    // Prose before code, and words apart that only their boxes keep apart.
    for (const code of [...article.querySelectorAll(".cell_input")]) article.append(code);
    for (const box of article.querySelectorAll("p, li, dt, dd, td, th, h1, h2, h3, h4, pre")) box.append(" ");
    const part = (anchor && page.getElementById(anchor.slice(1))) || article;
    return part.textContent.replace(/\s+/g, " ").trim();
  };

  const wordsAround = (text, stems) => {
    const stemmer = new Stemmer();
    const stem = (word) => stemmer.stemWord(GREEK[word] ?? word.toLowerCase());
    const words = [...text.matchAll(/[\p{Letter}\p{Number}]+/gu)];
    const hits = words.map(({ 0: word, index }) => ({ index, stem: stem(word) })).filter((hit) => stems.has(hit.stem));
    // The first place with most of the words asked for; else, as in the index, a part of a word.
    const company = ({ index }) => {
      const near = hits.filter((other) => other.index >= index && other.index < index + EXCERPT / 4);
      return new Set(near.map((hit) => hit.stem)).size;
    };
    const most = Math.max(...hits.map(company));
    const found =
      hits.find((hit) => company(hit) === most) ??
      words.find(([word]) => [...stems].some((part) => word.toLowerCase().includes(part)));
    const from = Math.max((found?.index ?? 0) - EXCERPT / 2, 0);
    const start = from && text.indexOf(" ", from) + 1; // no half words
    const end = start + EXCERPT < text.length ? text.lastIndexOf(" ", start + EXCERPT) : text.length;
    return (start ? "… " : "") + text.slice(start, end) + (end < text.length ? " …" : "");
  };

  const betterSearch = () => {
    if (typeof Search === "undefined") return; // not the search page
    // From the file system no page may read another: a list of pages is what there can be.
    if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
    Search.htmlToText = articleText;
    Search.makeSearchSummary = (html, stems, anchor) => {
      const text = Search.htmlToText(html, anchor);
      if (!text) return null;
      const summary = document.createElement("p");
      summary.className = "context";
      summary.textContent = wordsAround(text, stems);
      return summary;
    };
    // The index knows formulas by their source, where γ is called gamma.
    const perform = Search.performSearch;
    Search.performSearch = (query) => perform(query.replace(/\p{Script=Greek}/gu, (letter) => GREEK[letter] ?? letter));
  };

  // A link in the title of a folded solution leads to its exercise; only the rest folds.
  const keepTitleLinks = () => {
    for (const link of document.querySelectorAll(".dropdown > .admonition-title a")) {
      link.addEventListener("click", (event) => event.stopPropagation());
    }
  };

  betterSearch(); // before the page is ready: the search itself starts then

  const start = () => {
    nameButtons();
    nameCitations();
    keepTitleLinks();
    nameScrollers();
    window.addEventListener("resize", nameScrollers);
    window.addEventListener("load", nameScrollers);
    // A folded box opens, or a formula is set at last: widths change without a resize.
    new ResizeObserver(nameScrollers).observe(document.querySelector("article") || document.body);
  };

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
