// Names and keyboard access that the theme leaves out.
document.querySelector(".md-search").setAttribute("aria-label", "Search");
new MutationObserver(() => {
  document.querySelectorAll(".md-code__nav").forEach((buttons, index) => buttons.setAttribute("aria-label", `Code block ${index + 1}`));
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) table.tabIndex = 0;
}).observe(document.body, { childList: true, subtree: true });
