// Shows the end of the log of a job, and stays there while lines are added, unless the reader has
// scrolled away from the end.
"use strict";
(() => {
	let atEnd = true;
	const follow = () => {
		const box = document.getElementById("logs");
		if (box && atEnd) box.scrollTop = box.scrollHeight;
	};
	document.addEventListener("scroll", ({ target }) => {
		if (target.id === "logs") atEnd = target.scrollHeight - target.scrollTop - target.clientHeight < 10;
	}, true);
	document.addEventListener("DOMContentLoaded", follow);
	document.addEventListener("bullmq:updated", follow);
})();
