// Adds a box that ticks all jobs of the table. It stays when the page is updated.
"use strict";
(() => {
	const boxes = (form) => [...form.querySelectorAll("tbody input[type=checkbox]")];
	const offer = (root) => {
		for (const head of root.querySelectorAll("form.select thead .tick")) {
			if (head.querySelector("input")) continue;
			const all = document.createElement("input");
			all.type = "checkbox";
			all.id = "select-all";
			all.setAttribute("aria-label", "select all jobs of this page");
			head.replaceChildren(all);
		}
	};
	const show = () => {
		for (const all of document.querySelectorAll("#select-all")) {
			const rows = boxes(all.form);
			all.checked = rows.length > 0 && rows.every((box) => box.checked);
		}
	};
	document.addEventListener("DOMContentLoaded", () => {
		offer(document);
		show();
	});
	document.addEventListener("change", ({ target }) => {
		if (!target.matches("form.select input[type=checkbox]")) return;
		if (target.id === "select-all") boxes(target.form).forEach((box) => { box.checked = target.checked; });
		else show();
	});
	document.addEventListener("htmx:before:swap", (event) => event.detail.tasks.forEach((task) => offer(task.fragment)));
	document.addEventListener("bullmq:updated", () => {
		offer(document);
		show();
	});
})();
