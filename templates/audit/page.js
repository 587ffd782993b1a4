document.documentElement.classList.add('scripted');
const form = document.querySelector('form.filter'), told = document.getElementById('told');
const machines = [...document.querySelectorAll('details.machine')];
const texts = new Map();
const textOf = (machine) => {
  if (!texts.has(machine)) texts.set(machine, machine.textContent.toLowerCase());
  return texts.get(machine);
};
const apply = () => {
  const words = form.search.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const machine of machines) {
    const is = (name) => !form[name].value || machine.dataset[name] === form[name].value;
    const fits = is('state') && is('make')
      && (!form.rule.value || machine.dataset.rules.split(' ').includes(form.rule.value))
      && words.every((word) => textOf(machine).includes(word));
    machine.hidden = !fits;
    shown += fits;
  }
  told.textContent = `${shown} of ${machines.length} shown`;
};
form.addEventListener('input', apply);
form.addEventListener('submit', (event) => event.preventDefault());
form.addEventListener('reset', () => setTimeout(apply));
document.addEventListener('keydown', (event) => {
  if (event.key === '/' && !event.target.matches('input, select')) {
    event.preventDefault();
    form.search.focus();
  }
  if (event.key === 'Escape' && event.target === form.search) form.reset();
});
const open = () => {
  const place = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!(place instanceof HTMLDetailsElement)) return;
  place.hidden = false;
  place.open = true;
  place.scrollIntoView();
};
addEventListener('hashchange', open);
apply();
open();
