// Prepares the page for a walk by Tab, and returns what Tab must reach. focus-report.js reports what it did reach.
() => {
  const name = element => {
    const text = (element.innerText || element.value || element.getAttribute('aria-label') || element.name || '').trim().replace(/\s+/g, ' ').slice(0, 40);
    return `<${element.tagName.toLowerCase()}> “${text}”`;
  };
  const must = [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex]')].filter(element =>
    element.tabIndex >= 0 && !element.disabled && element.type !== 'hidden' && element.checkVisibility({ visibilityProperty: true }));
  // Tab reaches one radio button of each group.
  const groups = new Set();
  const wanted = must.filter(element => {
    if (element.type !== 'radio') {
      return true;
    }
    const first = !groups.has(element.name);
    groups.add(element.name);
    return first;
  });
  window.walk = { wanted, reached: new Set(), groups: new Set(), faults: [] };
  document.addEventListener('focusin', ({ target }) => {
    window.walk.reached.add(target);
    if (target.type === 'radio') {
      window.walk.groups.add(target.name);
    }
    const seen = element => {
      const s = getComputedStyle(element);
      return (s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 1) || s.boxShadow !== 'none';
    };
    if (!seen(target)) {
      window.walk.faults.push(`${name(target)} has no visible focus`);
    }
    const box = target.getBoundingClientRect();
    if (box.bottom < 0 || box.top > innerHeight || box.right < 0 || box.left > innerWidth) {
      window.walk.faults.push(`${name(target)} has the focus outside of the window`);
    }
  });
  window.walk.report = () => [
    ...window.walk.faults,
    ...wanted.filter(e => !(e.type === 'radio' ? window.walk.groups.has(e.name) : window.walk.reached.has(e))).map(e => `Tab does not reach ${name(e)}`),
  ];
  document.activeElement?.blur();
  return wanted.length;
}
