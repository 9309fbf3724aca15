// Updates the content of a page while it is open and visible. The server's stream says when
// something has changed; then the page is requested again, and htmx morphs the differences
// into it, so that focus, selection, scroll position and typed text stay. Without a stream the
// page is requested every few seconds.
"use strict";
(() => {
	const pollEvery = 5000, longestBackoff = 30000, requestTime = 20000;
	const key = "bullmq-live";
	const button = document.getElementById("live");
	let main = document.getElementById("main");
	let source = null, reconnect = 0, poll = 0, fallback = 0, backoff = 1000;
	let watched = ""; // what tells of changes, as the page said when the stream was opened
	let busy = false, again = false, last = "", paused = false;

	try {
		paused = sessionStorage.getItem(key) === "paused";
	} catch {
		// Storage is disabled.
	}

	const show = (state, text, title) => {
		button.dataset.state = state;
		if (button.textContent !== text) button.textContent = text;
		button.title = title;
		button.setAttribute("aria-pressed", String(!paused));
	};
	const showState = () => {
		if (paused) show("off", "Paused", "The page is not updated. Press to update it.");
		else if (source && source.readyState === EventSource.OPEN) show("on", "Live", "The page is updated when something changes. Press to pause.");
		else if (source && !fallback) show("off", "Connecting", "The stream of changes is being opened. Press to pause.");
		else if (!main.dataset.live) show("on", "Live", "The page is updated every " + main.dataset.every / 1000 + " seconds. Press to pause.");
		else show("poll", "Every 5 s", "There is no stream of changes, so the page is updated every 5 seconds. Press to pause.");
	};

	const watchedBy = (element) => element.dataset.live + " " + (element.dataset.every || "");

	// keep copies what the reader has changed in the page to the text that replaces it.
	const keep = (fragment) => {
		times.localize(fragment);
		for (const element of main.querySelectorAll("details[id]")) {
			const other = fragment.querySelector("#" + CSS.escape(element.id));
			if (other) other.open = element.open;
		}
	};
	document.addEventListener("htmx:before:swap", (event) => event.detail.tasks.forEach((task) => keep(task.fragment)));

	const refresh = async () => {
		if (busy) {
			again = true;
			return;
		}
		busy = true;
		const address = location.href;
		try {
			const response = await fetch(address, { headers: { "HX-Request": "true" }, cache: "no-store", signal: AbortSignal.timeout(requestTime) });
			const text = await response.text();
			if (address !== location.href) again = true; // the filter has changed meanwhile
			else if (paused || document.hidden) again = false;
			else if (response.status >= 500) show("bad", "Not updated", "The page can’t be read: " + response.status + ".");
			else {
				const told = { ...main.dataset };
				if (text !== last) await htmx.swap({ sourceElement: main, target: main, select: "#main", swap: "outerMorph", text });
				last = text;
				main = document.getElementById("main");
				if (!response.ok) Object.assign(main.dataset, told); // the page of an error is not live, but its job or queue may come back
				if (watchedBy(main) !== watched) connect();
				showState();
				document.dispatchEvent(new Event("bullmq:updated"));
			}
		} catch {
			show("bad", "Not updated", "The dashboard can’t be reached.");
		} finally {
			busy = false;
		}
		if (again && !paused && !document.hidden) {
			again = false;
			refresh();
		}
	};

	const close = () => {
		if (source) source.close();
		source = null;
		clearTimeout(reconnect);
		clearInterval(poll);
		clearInterval(fallback);
		poll = fallback = 0;
	};
	const connect = () => {
		close();
		if (paused || document.hidden) return;
		watched = watchedBy(main);
		const every = Number(main.dataset.every);
		if (every) poll = setInterval(refresh, every);
		if (main.dataset.live) open(main.dataset.live);
	};
	// open opens the stream. Until that succeeds, the page is requested every few seconds.
	const open = (address) => {
		const opened = new EventSource(address);
		source = opened;
		opened.addEventListener("open", () => {
			backoff = 1000;
			clearInterval(fallback);
			fallback = 0;
			showState();
			refresh(); // the page may have changed before
		});
		opened.addEventListener("change", refresh);
		opened.addEventListener("error", () => {
			if (source !== opened) return;
			opened.close();
			source = null;
			if (!fallback) fallback = setInterval(refresh, pollEvery);
			showState();
			reconnect = setTimeout(() => open(address), backoff * (0.5 + Math.random()));
			backoff = Math.min(2 * backoff, longestBackoff);
		});
	};

	button.addEventListener("click", () => {
		paused = !paused;
		try {
			sessionStorage.setItem(key, paused ? "paused" : "");
		} catch {
			// The choice lasts until the page is left.
		}
		connect();
		showState();
		if (!paused) refresh();
	});
	document.addEventListener("visibilitychange", () => {
		connect();
		if (!document.hidden) refresh();
	});
	addEventListener("pagehide", close);
	addEventListener("pageshow", (event) => event.persisted && connect());

	// A form with data-filter filters while the reader types, without a new page.
	let typed = 0;
	const filter = (form) => {
		const query = new URLSearchParams();
		for (const [name, value] of new FormData(form)) if (value !== "") query.append(name, value);
		history.replaceState(null, "", location.pathname + (query.size ? "?" + query : ""));
		refresh();
	};
	document.addEventListener("input", (event) => {
		const form = event.target.closest("form[data-filter]");
		if (!form) return;
		clearTimeout(typed);
		typed = setTimeout(() => filter(form), 200);
	});
	document.addEventListener("submit", (event) => {
		if (!event.target.matches("form[data-filter]")) return;
		event.preventDefault();
		clearTimeout(typed);
		filter(event.target);
	});

	connect();
	showState();
	button.hidden = false;
})();
