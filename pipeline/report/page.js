// Without this script, the page shows the same content: browsers display titles after a second.
// Text is copied as text and never becomes markup.
'use strict';
(() => {
  const tip = document.getElementById('tip');
  document.addEventListener('mouseover', event => {
    const shape = event.target.closest('svg *, svg.spark');
    let title = null;
    for (let at = shape; at && at.tagName !== 'FIGURE' && !title; at = at.parentElement)
      title = [...at.children].find(child => child.tagName === 'title');
    if (title) {  // otherwise the browser shows it too
      title.parentElement.dataset.tip = title.textContent;
      title.remove();
    }
    const source = shape && shape.closest('[data-tip]');
    tip.hidden = !source;
    if (source) tip.textContent = source.dataset.tip;
  });
  document.addEventListener('mousemove', event => {
    if (tip.hidden) return;
    const x = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
    const below = event.clientY + 18 + tip.offsetHeight < innerHeight;
    tip.style.left = Math.max(x, 8) + 'px';
    tip.style.top = event.clientY + (below ? 18 : -tip.offsetHeight - 10) + 'px';
  });
  const rows = [...document.querySelectorAll('#groups ~ * tbody tr')];
  if (rows.length < 8) return;
  const field = document.createElement('input');
  Object.assign(field, {id: 'filter', type: 'search', placeholder: 'Filter groups'});
  field.setAttribute('aria-label', 'Filter groups');
  document.getElementById('groups').after(field);
  field.addEventListener('input', () => {
    const wanted = field.value.toLowerCase();
    for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
    const more = document.querySelector('#groups ~ details');
    if (more && wanted) more.open = true;
  });
})();
