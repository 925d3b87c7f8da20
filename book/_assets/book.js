// What the theme leaves undone for readers who use a keyboard or a screen reader.
// A classic script without dependencies, so that it also works from file://.
"use strict";

(() => {
  // A box whose content scrolls sideways can be scrolled with the arrow keys only once
  // it has the focus, and is announced only if it has a name.
  const SCROLLERS = [
    ["div.math > mjx-container", "Equation"],
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
    // The theme's handle for the pages below a page shows an icon alone.
    for (const handle of document.querySelectorAll(".bd-links details > summary:not([aria-label])")) {
      const above = handle.closest("li")?.querySelector("a")?.textContent.trim();
      handle.setAttribute("aria-label", `Pages of ${above}`);
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

  // A link in the title of a folded solution leads to its exercise; only the rest folds.
  const keepTitleLinks = () => {
    for (const link of document.querySelectorAll(".dropdown > .admonition-title a")) {
      link.addEventListener("click", (event) => event.stopPropagation());
    }
  };

  // On a phone the theme's menus cover the page, and stay open over the place on it that they led to.
  const closeMenus = () => {
    for (const menu of document.querySelectorAll("dialog[id$=-sidebar-modal]")) {
      menu.addEventListener("click", (event) => {
        const link = event.target.closest("a[href]");
        if (link && link.hash && link.pathname === location.pathname) menu.close();
      });
    }
  };

  const start = () => {
    closeMenus();
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
