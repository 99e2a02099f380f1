// The box to type a word into: shows the tables of the concepts that the word names.
(() => {
  const place = document.querySelector(".lookup");
  if (!place) return;
  const known = JSON.parse(place.querySelector("script").textContent);
  const found = place.querySelector(".found");
  const [table] = found.children;
  const make = (name, text = "") => Object.assign(document.createElement(name), { textContent: text });
  const wordsOf = ([name, words]) => [name, ...words.toLowerCase().split(", ")];
  const shown = (concept) => {
    const [name, words, above] = concept;
    const copy = table.cloneNode(true);
    copy.querySelector("caption").textContent = `${name} (${words})`;
    copy.querySelector("tbody").replaceChildren(
      ...above.map(([hypernym, ...cells]) => {
        const row = make("tr");
        row.append(Object.assign(make("th", hypernym), { scope: "row" }), ...cells.map((one) => make("td", one)));
        return row;
      }),
    );
    return copy;
  };
  const label = make("label", "Word");
  const input = Object.assign(make("input"), { type: "search", spellcheck: false, autocomplete: "off" });
  const list = Object.assign(make("datalist"), { id: "known-words" });
  const all = [...new Set(known.flatMap((one) => wordsOf(one).slice(1)))].sort();
  list.append(...all.map((word) => Object.assign(make("option"), { value: word })));
  input.setAttribute("list", list.id);
  input.placeholder = all.slice(0, 3).join(", ");
  label.append(input);
  found.before(label, list);
  found.setAttribute("aria-live", "polite");
  input.addEventListener("input", () => {
    const word = input.value.trim();
    if (!word) return;
    const wanted = word.toLowerCase().replaceAll("_", " ");
    const matching = (test) => known.filter((one) => wordsOf(one).some(test));
    const exact = matching((one) => one === wanted || one === word);
    const concepts = exact.length ? exact : matching((one) => one.startsWith(wanted)).slice(0, 3);
    const none = make("p", `“${word}” is none of the ${known.length} concepts of this page.`);
    found.replaceChildren(...(concepts.length ? concepts.map(shown) : [none]));
  });
})();
