"""What moves: words beside the mouse at once, and a field that leaves only some groups in the list.

Without it the page says the same: browsers show titles by themselves, after a second.
"""

from typing import Final

__all__ = ["SCRIPT"]

# Text goes from one place of the page to another as text; no markup is ever made of it.
SCRIPT: Final = """
'use strict';
(() => {
  const tip = document.getElementById('tip');
  document.addEventListener('mouseover', event => {
    const shape = event.target.closest('svg *, svg.spark');
    let title = null;
    for (let at = shape; at && at.tagName !== 'FIGURE' && !title; at = at.parentElement)
      title = [...at.children].find(child => child.tagName === 'title');
    if (title) {  // or the browser shows it as well
      title.parentElement.dataset.says = title.textContent;
      title.remove();
    }
    const said = shape && shape.closest('[data-says]');
    tip.hidden = !said;
    if (said) tip.textContent = said.dataset.says;
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
"""
