// Returns the boxes of the page's parts, as lines of "part x width height text". What differs from run to run is
// replaced first: numbers, times, ids and the name of the machine. The page is spoiled afterwards.
host => {
  const uuid = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;
  const duration = /\b(in )?\d+(\.\d+)? (ms|s|m|h|d)( \d+ (ms|s|m|h|d))?\b( ago)?|\bnow\b/g;
  const mask = text => text.replaceAll(host, 'host').replace(uuid, 'uuid').replace(duration, '0 s').replace(/–|^unknown$/g, '0').replace(/\d+([.,]\d+)*/g, '0');
  document.querySelectorAll('time').forEach(e => { e.textContent = e.classList.contains('ago') ? '0 s' : 'Jan 1, 2026'; });
  document.querySelectorAll('.badge').forEach(e => e.textContent.startsWith('overdue') && e.remove());
  document.querySelectorAll('#live').forEach(e => { e.textContent = 'Live'; });
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const text = mask(node.data);
    if (text !== node.data) {
      node.data = text;
    }
  }
  const parts = 'header, nav, main, footer, h1, h2, h3, form, fieldset, label, input, select, textarea, button, .button, .card, dl, dt, table, th, pre, svg, canvas, details, [role=status], [role=alert], .notice';
  const lines = [];
  for (const element of document.querySelectorAll(parts)) {
    if (!element.checkVisibility({ visibilityProperty: true }) || element.closest('svg') !== (element.tagName === 'svg' ? element : null) || element.closest('tbody')) {
      continue;
    }
    const box = element.getBoundingClientRect();
    if (box.width <= 1) {
      continue;
    }
    // The height of what holds data depends on the data.
    const high = ['H1', 'H2', 'H3', 'LABEL', 'INPUT', 'SELECT', 'BUTTON', 'DT', 'TH'].includes(element.tagName) ? Math.round(box.height) : '-';
    const holds = ['HEADER', 'NAV', 'MAIN', 'FOOTER', 'FORM', 'FIELDSET', 'DL', 'TABLE', 'PRE', 'DETAILS', 'SELECT', 'svg'].includes(element.tagName);
    const text = holds ? '' : (element.innerText || '').trim().replace(/\s+/g, ' ').slice(0, 40);
    lines.push(`${element.tagName.toLowerCase()} ${Math.round(box.left)} ${Math.round(box.width)} ${high} ${text}`.trim());
  }
  return lines;
}
