// Applies the theme that the reader has chosen, before the page is drawn, and offers the choice.
"use strict";
(() => {
	const key = "bullmq-theme";
	const stored = () => {
		try {
			return localStorage.getItem(key) || "";
		} catch {
			return ""; // storage is disabled
		}
	};
	const apply = (theme) => {
		if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
		else delete document.documentElement.dataset.theme;
	};
	apply(stored());
	addEventListener("storage", (event) => event.key === key && apply(event.newValue));
	document.addEventListener("DOMContentLoaded", () => {
		const choice = document.getElementById("theme");
		choice.value = document.documentElement.dataset.theme || "";
		choice.parentElement.hidden = false;
		choice.addEventListener("change", () => {
			apply(choice.value);
			try {
				localStorage.setItem(key, choice.value);
			} catch {
				// The choice lasts until the page is left.
			}
		});
	});
})();
