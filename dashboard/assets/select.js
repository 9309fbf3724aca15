// Adds a box that ticks all jobs of the table.
document.addEventListener("DOMContentLoaded", () => {
  for (const form of document.querySelectorAll("form.select")) {
    const head = form.querySelector("thead .tick");
    if (!head) continue;
    const boxes = () => [...form.querySelectorAll("tbody input[type=checkbox]")];
    const all = document.createElement("input");
    all.type = "checkbox";
    all.setAttribute("aria-label", "select all jobs of this page");
    head.replaceChildren(all);
    all.addEventListener("change", () => boxes().forEach((box) => { box.checked = all.checked; }));
    form.addEventListener("change", (event) => {
      if (event.target !== all) all.checked = boxes().every((box) => box.checked);
    });
  }
});
