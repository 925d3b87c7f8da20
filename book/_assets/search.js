// The search page: finds the named places of the book (book/_ext/places.py lists them), by words, by symbols, by
// pieces of formulas, and by what is nearly spelt right. A classic script, so that it also works from file://.
"use strict";

(() => {
  const GREEK = {
    α: "alpha", β: "beta", γ: "gamma", δ: "delta", ε: "epsilon", ζ: "zeta", η: "eta", θ: "theta", κ: "kappa",
    λ: "lambda", μ: "mu", ν: "nu", ξ: "xi", π: "pi", ρ: "rho", σ: "sigma", ς: "sigma", τ: "tau", φ: "phi", ϕ: "phi",
    χ: "chi", ψ: "psi", ω: "omega", Γ: "gamma", Δ: "delta", Θ: "theta", Λ: "lambda", Π: "pi", Σ: "sigma",
    Φ: "phi", Ψ: "psi", Ω: "omega",
  };
  const SHORT = { thm: "theorem", def: "definition", prop: "proposition", ex: "exercise", fig: "figure" };
  const SILENT = /\\?\b(tilde|hat|bar|mathbf|mathcal|mathrm|mathbb)\b|\\/g; // what the plain text of a formula leaves out
  // How much a hit counts: where in a place it is, and what kind of place that is.
  const FIELDS = { title: 6, also: 3, formulas: 1.5, text: 1, code: 0.2 };
  const KINDS = { page: 1.5, definition: 1.5, theorem: 1.3, term: 1.3, symbol: 0.9, exercise: 0.6, function: 1 };
  const BACK_MATTER = 0.3; // bibliography, status and the like
  const OTHER_FUNCTION = 0.01; // one whose name was not asked for: the chapter is meant
  const SHOWN = 40;
  const EXCERPT = 240;

  // "1-2C", "M_π" and "weighted_softmax_td" are words as a whole; their parts are words too.
  const WORD = /[\p{L}\p{N}√∞]+(?:[-_/+.][\p{L}\p{N}√∞]+)*/gu;
  const stemmer = new Stemmer();
  const wordsOf = (text) => text.match(WORD) ?? [];
  const partsOf = (word) => word.split(/[-_/+.]/);
  // γ is called gamma. A capital letter is more than its name: Π is not π.
  const spelt = (word) =>
    word.replace(/[^Α-Ω]+/gu, (text) => text.toLowerCase()).replace(/[α-ωϕ]/gu, (letter) => GREEK[letter] ?? letter);
  const named = (word) => spelt(word).replace(/[Α-Ω]/gu, (letter) => GREEK[letter] ?? letter);

  // The words of the book by their stem: who asks for one asks for all of them.
  const family = new Map();
  const seen = new Map(); // words come again and again, and stemming is slow
  const indexed = (word) => {
    if (!seen.has(word)) {
      seen.set(word, [...new Set([word, ...partsOf(word)].flatMap((part) => [spelt(part), named(part)]))]);
      for (const term of seen.get(word)) {
        const stem = stemmer.stemWord(term);
        family.set(stem, (family.get(stem) ?? new Set()).add(term));
      }
    }
    return seen.get(word);
  };
  const known = (term) => family.has(stemmer.stemWord(term));

  // A whole that no text has is asked for by its parts.
  const asked = (query) => {
    const words = wordsOf(query.replace(SILENT, "")).map(spelt).map((word) => SHORT[word] ?? word);
    const terms = words.flatMap((word) => (known(word) ? [word] : partsOf(word)));
    const telling = terms.filter((term) => !stopwords.includes(term));
    return telling.length ? telling : terms;
  };

  const places = window.PLACES.flatMap(({ page, title: pageTitle, places }) =>
    places.map((place) => ({ ...place, page, pageTitle })),
  ).map((place, id) => ({ ...place, id }));

  const index = new MiniSearch({
    fields: Object.keys(FIELDS),
    tokenize: wordsOf,
    processTerm: indexed,
    searchOptions: {
      tokenize: (term) => [term],
      processTerm: (term) => term,
      boost: FIELDS,
      // Only a word that the book does not have is taken for the beginning of another, or for a slip.
      prefix: (term) => !known(term) && term.length > 2,
      fuzzy: (term) => !known(term) && term.length > 3 && 0.25,
      boostDocument: (id) => weight(places[id]),
    },
  });
  index.addAll(places);

  const weight = ({ kind, page }) => {
    const chapter = page.startsWith("book/notebooks/");
    const reference = ["term", "symbol", "function"].includes(kind);
    return (KINDS[kind] ?? 1) * (chapter || reference ? 1 : BACK_MATTER);
  };

  // A name that is all of what was asked comes before a name that has it among other words.
  const nearness = ({ kind, title }, hits, asked, query) => {
    if (kind === "function") return wordsOf(query).includes(title) ? 2 : OTHER_FUNCTION;
    const own = wordsOf(title.replace(/^[\d.]+ |^\w+ [\d.]+: /, "")).map(spelt);
    return 1 + own.filter((word) => hits.includes(word)).length / Math.max(own.length, asked, 1);
  };

  const find = (query) => {
    const terms = asked(query);
    const queries = terms.map((term) => ({
      combineWith: "OR",
      queries: [...(family.get(stemmer.stemWord(term)) ?? [term])],
    }));
    const together = index.search({ combineWith: "AND", queries });
    const results = (together.length ? together : index.search({ combineWith: "OR", queries })).map(({ id, score, terms: hits }) => {
      return { place: places[id], hits, score: score * nearness(places[id], hits, terms.length, query) };
    });
    const found = results.sort((one, other) => other.score - one.score);
    return { found, unknown: terms.filter((term) => !known(term)) };
  };

  // A few words of a place, from where most of the words asked for stand.
  const excerpt = (text, terms) => {
    const hits = [...text.matchAll(WORD)]
      .map(({ 0: word, index: at }) => ({ at, terms: indexed(word).filter((term) => terms.includes(term)) }))
      .filter((hit) => hit.terms.length);
    const company = ({ at }) =>
      new Set(hits.filter((hit) => hit.at >= at && hit.at < at + EXCERPT / 4).flatMap((hit) => hit.terms)).size;
    const most = Math.max(...hits.map(company));
    const from = Math.max((hits.find((hit) => company(hit) === most)?.at ?? 0) - EXCERPT / 2, 0);
    const start = from && text.indexOf(" ", from) + 1; // no half words
    const end = start + EXCERPT < text.length ? text.lastIndexOf(" ", start + EXCERPT) : text.length;
    return (start ? "… " : "") + text.slice(start, end) + (end < text.length ? " …" : "");
  };

  const element = (tag, className, ...children) => {
    const made = document.createElement(tag);
    made.className = className;
    made.append(...children);
    return made;
  };

  const item = ({ place, hits }) => {
    const link = element("a", "", place.title);
    link.href = `${document.documentElement.dataset.content_root}${place.page}.html${place.anchor && `#${place.anchor}`}`;
    const where = place.kind === "page" ? [] : [element("p", "where", place.pageTitle)];
    return element("li", "", link, ...where, element("p", "context", excerpt(place.text, hits)));
  };

  const show = (query) => {
    const { found, unknown } = find(query);
    const count = `${found.length} place${found.length === 1 ? "" : "s"}`;
    const told = !found.length
      ? "Nothing was found."
      : unknown.length
        ? `The book has no “${unknown.join("”, “")}”. ${count} have words like it.`
        : count + (found.length > SHOWN ? `, the first ${SHOWN} of them` : "");
    const list = element("ol", "search", ...found.slice(0, SHOWN).map(item));
    const status = element("p", "search-summary", told);
    status.setAttribute("role", "status");
    document.getElementById("search-results").replaceChildren(status, list);
  };

  const query = new URLSearchParams(location.search).get("q");
  for (const field of document.querySelectorAll("input[name=q]")) field.value = query;
  if (query?.trim()) show(query);
})();
