// Draws the charts of the metrics pages with uPlot. The figures come from the table below, so
// that the page is the same for readers without the charts.
"use strict";
(() => {
	const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
	// A canvas knows no light-dark(): the browser resolves the colour on an element.
	const probe = document.createElement("span");
	probe.hidden = true;
	document.body.append(probe);
	const resolved = (name) => {
		probe.style.color = colour(name);
		return getComputedStyle(probe).color;
	};
	const lines = {
		throughput: [["Failed", "--bar-bad"], ["Completed", "--bar"]], // drawn in this order, see stack
		wait: [["p50", "--bar"], ["p95", "--warn"], ["p99", "--bad"]],
		run: [["p50", "--bar"], ["p95", "--warn"], ["p99", "--bad"]],
	};
	const duration = (ms) => {
		if (ms == null) return "–";
		if (ms < 1000) return ms + " ms";
		if (ms <= 100000) return +(ms / 1000).toPrecision(3) + " s";
		if (ms < 3600000) return +(ms / 60000).toPrecision(3) + " m";
		return +(ms / 3600000).toPrecision(3) + " h";
	};
	const step = (times) => (times.length > 1 ? times[1] - times[0] : 60);
	const charts = new Map(); // by the id of the figure

	// read returns the figures of a chart as uPlot wants them: times, then each line.
	const read = (kind, table) => {
		const data = [[], ...lines[kind].map(() => [])];
		let partial = null;
		for (const row of [...table.tBodies[0].rows].reverse()) {
			const cells = row.querySelectorAll('[data-of="' + kind + '"]');
			if (!cells.length) continue;
			data[0].push(Number(row.dataset.t));
			cells.forEach((cell, i) => {
				const value = cell.dataset.v === "" ? null : Number(cell.dataset.v);
				// A logarithm of 0 has no place in the chart.
				data[i + 1].push(value !== null && kind !== "throughput" ? Math.max(value, 1) : value);
			});
			if ("partial" in row.dataset) partial = Number(row.dataset.t);
		}
		return { data: kind === "throughput" ? stack(data) : data, partial };
	};

	// stack puts the failed jobs on top of the completed ones.
	const stack = (data) => {
		const [times, completed, failed] = data;
		return [times, completed.map((n, i) => n + failed[i]), completed];
	};

	// shade marks the time that has not ended.
	const shade = (chart) => {
		if (chart.partial === null) return;
		const { ctx, bbox } = chart;
		const from = Math.max(chart.valToPos(chart.partial - step(chart.data[0]) / 2, "x", true), bbox.left);
		ctx.save();
		ctx.globalAlpha = 0.15;
		ctx.fillStyle = chart.shadeColour;
		ctx.fillRect(from, bbox.top, bbox.left + bbox.width - from, bbox.height);
		ctx.restore();
	};

	const make = (figure, table) => {
		const kind = figure.dataset.chart, { data, partial } = read(kind, table);
		const text = resolved("--quiet"), grid = { stroke: resolved("--line"), width: 1 };
		const throughput = kind === "throughput";
		const options = {
			width: Math.max(figure.clientWidth, 200), height: 190,
			cursor: { sync: { key: "metrics" }, drag: { x: false, y: false } },
			scales: {
				x: { range: (_, from, to) => [from - step(data[0]) / 2, to + step(data[0]) / 2] },
				y: throughput ? { range: (_, __, top) => [0, Math.max(top, 1) * 1.05] } : { distr: 3 },
			},
			axes: [
				{ stroke: text, grid, ticks: grid },
				{ stroke: text, grid, ticks: grid, size: 64, values: throughput ? undefined : (_, splits) => splits.map((v) => (v === null || !/^10*$/.test(String(v)) ? "" : duration(v))) },
			],
			series: [
				{ value: (_, t) => (t == null ? "–" : new Date(1000 * t).toLocaleTimeString()) },
				...lines[kind].map(([label, name]) => ({
					label, stroke: resolved(name), width: 2, spanGaps: false, points: { size: 5, show: !throughput },
					fill: throughput ? resolved(name) : undefined,
					paths: throughput ? uPlot.paths.bars({ size: [0.7, 40] }) : undefined,
					value: !throughput ? (_, v) => duration(v) : (chart, v, series, at) => {
						if (v == null || at == null) return "–";
						return (label === "Failed" ? v - chart.data[2][at] : v).toLocaleString();
					},
				})),
			],
			hooks: { draw: [shade] },
		};
		figure.replaceChildren();
		const chart = new uPlot(options, data, (chart, ready) => {
			chart.partial = partial;
			chart.shadeColour = text;
			figure.append(chart.root);
			ready();
		});
		charts.set(figure.id, { chart, figure });
	};

	const draw = (anew) => {
		for (const figure of document.querySelectorAll("figure[data-chart]")) {
			const table = document.getElementById(figure.dataset.table), drawn = charts.get(figure.id);
			if (!table) continue;
			if (anew || !drawn || drawn.figure !== figure) {
				if (drawn) drawn.chart.destroy();
				make(figure, table);
				sizes.observe(figure);
				continue;
			}
			const { data, partial } = read(figure.dataset.chart, table);
			drawn.chart.partial = partial;
			drawn.chart.setData(data);
		}
	};
	const sizes = new ResizeObserver((entries) => {
		for (const { target } of entries) {
			const drawn = charts.get(target.id), width = Math.max(target.clientWidth, 200);
			if (drawn && drawn.chart.width !== width) drawn.chart.setSize({ width, height: 190 });
		}
	});

	const figures = document.getElementById("figures");
	if (figures && document.querySelector("figure[data-chart]")) figures.open = false;
	draw();
	document.addEventListener("bullmq:updated", () => draw());
	new MutationObserver(() => draw(true)).observe(document.documentElement, { attributeFilter: ["data-theme"] });
	matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw(true));
})();
