// Applies the chosen colours before the first paint: modules run too late for that.
try {
  document.documentElement.dataset.theme = localStorage.getItem("turnwheel-theme") ?? "system";
} catch {
  document.documentElement.dataset.theme = "system";
}
