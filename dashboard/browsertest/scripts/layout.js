// Returns the faults in the layout of the page, as sentences.
() => {
  const faults = [];
  const width = document.documentElement.clientWidth;
  const tolerance = 2;
  const name = element => {
    const text = (element.innerText || element.value || element.getAttribute('aria-label') || '').trim().replace(/\s+/g, ' ').slice(0, 40);
    return `<${element.tagName.toLowerCase()}${element.className && element.className.baseVal === undefined ? '.' + element.className : ''}> “${text}”`;
  };
  const style = element => getComputedStyle(element);
  // Visible to sighted readers: not hidden, and not made tiny for screen readers.
  const visible = element => {
    if (!element.checkVisibility({ visibilityProperty: true, opacityProperty: true })) {
      return false;
    }
    for (let e = element; e && e !== document.body; e = e.parentElement) {
      const box = e.getBoundingClientRect();
      if (style(e).clipPath === 'inset(50%)' || (style(e).overflowX !== 'visible' && (box.width <= 1 || box.height <= 1))) {
        return false;
      }
    }
    return true;
  };
  // The part of a rectangle that scroll containers and clipping ancestors show.
  const shown = (rect, element) => {
    let { left, top, right, bottom } = rect;
    for (let e = element; e && e !== document.documentElement; e = e.parentElement) {
      const s = style(e);
      if (s.position === 'fixed') {
        break;
      }
      if (e !== document.body && (s.overflowX !== 'visible' || s.overflowY !== 'visible') && s.display !== 'inline') {
        const box = e.getBoundingClientRect();
        left = Math.max(left, box.left); right = Math.min(right, box.right);
        top = Math.max(top, box.top); bottom = Math.min(bottom, box.bottom);
      }
    }
    return right - left > 0 && bottom - top > 0 ? { left, top, right, bottom } : null;
  };
  const scrolls = element => {
    for (let e = element; e && e !== document.body; e = e.parentElement) {
      if (['auto', 'scroll', 'hidden', 'clip'].includes(style(e).overflowX)) {
        return true;
      }
    }
    return false;
  };

  // 1. The page itself must not scroll sideways.
  if (document.documentElement.scrollWidth > width + 1) {
    const wide = [...document.body.querySelectorAll('*')]
      .filter(e => visible(e) && !scrolls(e.parentElement) && e.getBoundingClientRect().right > width + 1)
      .slice(-4).map(name);
    faults.push(`the page is ${document.documentElement.scrollWidth} px wide in a window of ${width} px, because of ${wide.join(', ')}`);
  }

  // 2. Texts and controls must not cover each other.
  const boxes = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (node.data.trim() === '' || !visible(node.parentElement) || node.parentElement.closest('svg, select, noscript, script')) {
      continue;
    }
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const rect of [...range.getClientRects()].slice(0, 200)) {
      const part = rect.width > 1 && shown(rect, node.parentElement);
      if (part) {
        boxes.push({ ...part, element: node.parentElement, node });
      }
    }
  }
  for (const element of document.querySelectorAll('input, select, textarea, button, svg, canvas, summary')) {
    const part = visible(element) && shown(element.getBoundingClientRect(), element);
    if (part) {
      boxes.push({ ...part, element });
    }
  }
  boxes.sort((a, b) => a.top - b.top);
  for (let i = 0; i < boxes.length && faults.length < 20; i++) {
    const a = boxes[i];
    for (let j = i + 1; j < boxes.length && boxes[j].top < a.bottom; j++) {
      const b = boxes[j];
      const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      // The lines of two texts one below the other may touch by some pixels: the boxes are higher than the letters.
      if (across <= tolerance || down <= 4 || (a.node && a.node === b.node) || a.element.contains(b.element) || b.element.contains(a.element)) {
        continue;
      }
      faults.push(`${name(a.element)} and ${name(b.element)} cover each other by ${Math.round(across)} × ${Math.round(down)} px`);
    }
  }

  // 3. Text must not be cut without a sign, and not leave its control.
  for (const element of document.body.querySelectorAll('*')) {
    if (!visible(element) || element.closest('svg')) {
      continue;
    }
    const s = style(element);
    const text = [...element.childNodes].some(n => n.nodeType === Node.TEXT_NODE && n.data.trim() !== '');
    const cutsX = ['hidden', 'clip'].includes(s.overflowX), cutsY = ['hidden', 'clip'].includes(s.overflowY);
    if (cutsX && text && s.textOverflow !== 'ellipsis' && element.scrollWidth > element.clientWidth + tolerance) {
      faults.push(`${name(element)} is cut at the side without an ellipsis`);
    }
    if (cutsY && text && element.scrollHeight > element.clientHeight + 4 && s.webkitLineClamp === 'none') {
      faults.push(`${name(element)} is cut at the bottom`);
    }
    if (['BUTTON', 'SUMMARY'].includes(element.tagName) || element.classList.contains('badge')) {
      const box = element.getBoundingClientRect();
      const range = document.createRange();
      range.selectNodeContents(element);
      const inner = range.getBoundingClientRect();
      if (inner.width > 0 && s.display !== 'inline' && (inner.right > box.right + tolerance || inner.left < box.left - tolerance || inner.bottom > box.bottom + 4)) {
        faults.push(`the text of ${name(element)} leaves its box`);
      }
    }
  }

  // 4. One heading says what the page is.
  const headings = [...document.querySelectorAll('h1')].filter(visible);
  if (headings.length !== 1) {
    faults.push(`the page has ${headings.length} visible h1`);
  } else {
    const box = headings[0].getBoundingClientRect();
    if (box.top < 0 || box.top > innerHeight || box.left < 0 || box.left >= width || box.height < 10) {
      faults.push('the heading is outside of the window');
    }
  }
  return faults;
}
