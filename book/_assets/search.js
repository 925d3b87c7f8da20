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
  const SHORT = {
    thm: "theorem", def: "definition", defn: "definition", prop: "proposition", lem: "lemma", cor: "corollary", ex: "exercise",
    fig: "figure", eq: "equation", eqn: "equation", sec: "section", ch: "chapter", chap: "chapter",
  };
  // What the book counts; the kinds of a line share one count.
  const COUNTED = [["theorem", "proposition", "definition", "lemma", "corollary"], ["section"], ["equation"], ["figure"], ["exercise"], ["page"]];
  const NUMBER = /^(?:\p{Lu}\p{Ll}+ )?(\d+(?:\.\d+)?)/u; // at the beginning of a title
  const ACCENTS = { hat: "\u0302", tilde: "\u0303", bar: "\u0304", dot: "\u0307" };
  // What a question is made of, besides Sphinx's stop words: it tells nothing of what is asked for.
  const QUESTION = new Set(
    "how what why when where which who do does did done can could should would am were been has have i we you me my our difference between versus vs".split(" "),
  );
  // What readers say, and the book says otherwise: both are looked for.
  const OTHERWISE = {
    "learning rate": "step size", temperature: "sharpness", "list of symbols": "notation", symbols: "notation", api: "library", colab: "binder",
    homework: "assignment", answers: "solution", citation: "cite", typo: "errata", mistake: "errata", prerequisites: "assumed knows",
  };
  const SILENT = /\\?\b(mathbf|mathcal|mathrm|mathbb)\b|\\/g; // what the plain text of a formula leaves out
  // How much a hit counts: where in a place it is, and what kind of place that is.
  const FIELDS = { title: 6, also: 3, formulas: 1.5, text: 1, code: 0.2 };
  const KINDS = { page: 1.5, definition: 1.5, theorem: 1.3, term: 1.3, symbol: 0.9, exercise: 0.6, equation: 0.4, citation: 0.3 };
  const BACK_MATTER = 0.3; // status, change log and the like
  const OTHER_FUNCTION = 0.01; // one whose name was not asked for: the chapter is meant
  const SHOWN = 40;
  const EXCERPT = 240;

  // "1-2C", "M_π" and "weighted_softmax_td" are words as a whole; their parts are words too.
  const WORD = /[\p{L}\p{M}\p{N}√∞]+(?:[-_/+.][\p{L}\p{M}\p{N}√∞]+)*/gu;
  const stemmer = new Stemmer();
  const wordsOf = (text) => text.match(WORD) ?? [];
  const partsOf = (word) => word.split(/[-_/+.]/);
  // γ is called gamma. A capital letter is more than its name: Π is not π.
  const spelt = (word) =>
    word.normalize("NFD").replace(/[^Α-Ω]+/gu, (text) => text.toLowerCase()).replace(/[α-ωϕ]/gu, (letter) => GREEK[letter] ?? letter);
  const bare = (word) => word.normalize("NFD").replace(/\p{M}/gu, "");
  const named = (word) => spelt(word).replace(/[Α-Ω]/gu, (letter) => GREEK[letter] ?? letter);

  // The words of the book by their stem: who asks for one asks for all of them.
  const family = new Map();
  const seen = new Map(); // words come again and again, and stemming is slow
  const indexed = (word) => {
    if (!seen.has(word)) {
      const parts = [word, ...partsOf(word)].flatMap((part) => [part, bare(part)]); // "P" finds P̂ too
      seen.set(word, [...new Set(parts.flatMap((part) => [spelt(part), named(part)]))]);
      for (const term of seen.get(word)) {
        const stem = stemmer.stemWord(term);
        family.set(stem, (family.get(stem) ?? new Set()).add(term));
      }
    }
    return seen.get(word);
  };
  const known = (term) => family.has(stemmer.stemWord(term));

  // "P hat", "hat P" and "\hat{P}_n" are P̂ and P̂_n.
  const LETTER = `(\\p{L}|${[...new Set(Object.values(GREEK))].join("|")})`;
  const ACCENT = `(${Object.keys(ACCENTS).join("|")})(?!\\p{L})`;
  const SPOKEN = new RegExp(`(?<!\\p{L})${LETTER}[\\s-]+${ACCENT}`, "giu");
  const AS_TEX = new RegExp(`(?<!\\p{L})\\\\?(?:wide)?${ACCENT}[\\s{]*\\\\?${LETTER}(?!\\p{L})\\}?`, "giu");
  const accented = (query) =>
    query
      .replace(AS_TEX, (_, accent, letter) => letter + ACCENTS[accent.toLowerCase()])
      .replace(SPOKEN, (_, letter, accent) => letter + ACCENTS[accent.toLowerCase()]);

  // A whole that no text has is asked for by its parts.
  const asked = (query) => {
    const words = wordsOf(accented(query).replace(SILENT, "")).map(spelt).map((word) => SHORT[word] ?? word);
    const terms = words.flatMap((word) => (known(word) ? [word] : partsOf(word)));
    const telling = terms.filter((term) => !stopwords.includes(term) && !QUESTION.has(term));
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
    const reference = ["term", "symbol", "function", "citation"].includes(kind);
    return (KINDS[kind] ?? 1) * (chapter || reference ? 1 : BACK_MATTER);
  };

  // A function is found as it is written, or spoken: certainty_equivalence, markovrewardprocess, sample context.
  const notions = new Set(
    places.filter(({ kind }) => kind !== "function").map(({ title }) => wordsOf(title).map(spelt).join(" ")),
  );
  const called = (title, typed) => {
    const camel = /\p{Ll}\p{Lu}/u.test(title) && typed.map(spelt).includes(spelt(title));
    // A name that is a plain word, as "sample" is, must be all that was typed.
    if ((camel || typed.includes(title)) && (typed.length === 1 || /[_.\p{Lu}]/u.test(title))) return 2;
    const spoken = partsOf(spelt(title)).join(" ");
    if (spoken !== typed.map(spelt).join(" ")) return OTHER_FUNCTION;
    return notions.has(spoken) ? 0.25 : 0.5; // where the book has a notion of that name, it comes first
  };

  // A name that is all of what was asked comes before a name that has it among other words.
  const nearness = ({ kind, title }, hits, asked, query) => {
    const own = wordsOf(title.replace(/^[\d.]+ |^\w+ [\d.]+: /, "")).map(spelt);
    if (kind === "function") return called(title, wordsOf(query));
    return 1 + own.filter((word) => hits.includes(word)).length / Math.max(own.length, asked, 1);
  };

  // The places that have more than half of what was asked for; if there are none, those with some.
  const search = (query) => {
    const terms = asked(query);
    const families = terms.map((term) => [...(family.get(stemmer.stemWord(term)) ?? [term])]);
    const results = index
      .search({ combineWith: "OR", queries: families.flat() })
      .map(({ id, score, terms: hits, queryTerms }) => {
        const share = families.filter((each) => each.some((term) => queryTerms.includes(term))).length / families.length;
        return { place: places[id], hits, share, score: score * share ** 2 * nearness(places[id], hits, terms.length, query) };
      });
    const enough = [0.51, 0].find((least) => results.some(({ share }) => share >= least));
    return { found: results.filter(({ share }) => share >= enough), unknown: terms.filter((term) => !known(term)) };
  };

  // What a query asks for by its number, if anything: "eq. 1.2", "(1.2)", "§ 3.1", "proof of thm 4.9", "fig 1", "1.2".
  const BY_KIND = /(?<!\p{L})(§|\p{L}+?)s?\.?\s*(?:(?:no|number)\.?\s*|#)?\(?(\d+(?:\.\d+)?)(?![\p{L}\d]|\.\d)/giu;
  const BY_NUMBER = /^[\s(]*(\d+\.\d+)[\s).?]*$/;
  const kindOf = (word) => ({ "§": "section", formula: "equation", chapter: "page" })[word] ?? word;
  const wanted = (query) => {
    for (const [, word, number] of query.toLowerCase().matchAll(BY_KIND)) {
      const kind = kindOf(SHORT[word] ?? word);
      if (COUNTED.flat().includes(kind)) return { kind, number };
    }
    const number = query.match(BY_NUMBER)?.[1];
    return number && { kind: query.includes("(") ? "equation" : "", number };
  };

  // The places of that number, the nearest in kind first: the book counts theorems, definitions and the like together,
  // what the paper calls Theorem 2 has another number here, and "fig 1" may be any of chapter 1.
  const numbered = ({ kind, number }) => {
    const like = COUNTED.find((kinds) => kinds.includes(kind)) ?? [];
    const inTitle = new RegExp(`(?<!\\p{L})${kind} ${number}(?!\\.?\\d)`, "iu");
    const nearest = (place) => {
      const own = place.title.match(NUMBER)?.[1] ?? "";
      if (own === number) return place.kind === kind ? 0 : like.includes(place.kind) ? 1 : 4;
      return kind && inTitle.test(place.title) ? 2 : like.includes(place.kind) && own.startsWith(`${number}.`) ? 3 : 5;
    };
    const count = ({ title }) => Number(title.match(NUMBER)?.[1].split(".")[1] ?? 99);
    const order = ({ kind }) => COUNTED.findIndex((kinds) => kinds.includes(kind));
    return places
      .filter((place) => place.page.startsWith("book/notebooks/") && nearest(place) < 5)
      .sort((one, other) => nearest(one) - nearest(other) || order(one) - order(other) || count(one) - count(other))
      .map((place) => ({ place, hits: [], asFound: nearest(place) < 4 || !kind }));
  };

  const find = (query) => {
    const { found, unknown } = search(query);
    const best = new Map(found.map((result) => [result.place, result]));
    const apart = query.replaceAll("_", " "); // P_tilde in the code is P̃
    const spoken = accented(apart) === apart ? query : accented(apart); // else the name of a function stays whole
    const others = Object.entries(OTHERWISE).map(([said, written]) => query.toLowerCase().replace(new RegExp(`\\b${said}\\b`), written));
    for (const other of [...others, spoken].filter((other) => other.toLowerCase() !== query.toLowerCase())) {
      for (const result of search(other).found) {
        if (!(best.get(result.place)?.score > result.score)) best.set(result.place, result);
      }
    }
    const sorted = [...best.values()].sort((one, other) => other.score - one.score);
    const asked = wanted(query);
    if (!asked) return { found: sorted, unknown };
    const first = numbered(asked);
    const listed = new Set(first.map(({ place }) => place));
    return {
      found: [...first, ...sorted.filter(({ place }) => !listed.has(place))],
      unknown: first.some(({ asFound }) => asFound) ? [] : [`${asked.kind === "page" ? "chapter" : asked.kind} ${asked.number}`.trim()],
    };
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
