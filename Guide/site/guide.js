// Names and keyboard access that the theme leaves out.
document.querySelector(".md-search").setAttribute("aria-label", "Search");
new MutationObserver(() => {
  document.querySelectorAll(".md-code__nav").forEach((buttons, index) => buttons.setAttribute("aria-label", `Code block ${index + 1}`));
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) table.tabIndex = 0;
}).observe(document.body, { childList: true, subtree: true });
// A section with its own page has a label without words.
for (const nav of document.querySelectorAll("nav[aria-labelledby]")) {
  if (document.getElementById(nav.getAttribute("aria-labelledby"))?.textContent.trim() === "") {
    nav.setAttribute("aria-label", nav.querySelector(".md-nav__title").textContent.trim());
    nav.removeAttribute("aria-labelledby");
  }
}
