// Shows times in the reader's zone. The server writes <time datetime="…"> with the time in UTC;
// with class "ago" it becomes the time that has passed.
"use strict";
const times = (() => {
	const parts = { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short" };
	const whole = new Intl.DateTimeFormat(undefined, parts);
	const full = new Intl.DateTimeFormat(undefined, { ...parts, fractionalSecondDigits: 3 });
	const units = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];

	const passed = (milliseconds) => {
		const seconds = Math.floor(Math.abs(milliseconds) / 1000);
		if (seconds < 1) return "now";
		const at = units.findIndex(([, length]) => seconds >= length);
		const [name, length] = units[at];
		let text = Math.floor(seconds / length) + " " + name;
		if (at + 1 < units.length && seconds < 10 * length) {
			const rest = Math.floor((seconds % length) / units[at + 1][1]);
			if (rest > 0) text += " " + rest + " " + units[at + 1][0];
		}
		return milliseconds < 0 ? "in " + text : text + " ago";
	};
	const show = (element) => {
		const at = new Date(element.dateTime);
		if (isNaN(at)) return;
		const local = (at.getMilliseconds() ? full : whole).format(at);
		const ago = element.classList.contains("ago");
		const due = at <= Date.now() && element.classList.contains("next");
		const text = due ? "due" : ago ? passed(Date.now() - at) : local;
		if (element.textContent !== text) element.textContent = text;
		const title = ago ? local : at.toISOString();
		if (element.title !== title) element.title = title;
	};
	// localize shows all times below a node.
	const localize = (root) => root.querySelectorAll("time[datetime]").forEach(show);

	document.addEventListener("DOMContentLoaded", () => {
		localize(document);
		const zone = document.getElementById("zone");
		if (zone) zone.textContent = "Times are those of " + Intl.DateTimeFormat().resolvedOptions().timeZone + ".";
	});
	setInterval(() => {
		if (!document.hidden) document.querySelectorAll("time.ago").forEach(show);
	}, 1000);
	return { localize };
})();
