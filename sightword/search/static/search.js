"use strict";

// All that comes from captions and ids is put in as text (textContent, setAttribute), never as HTML.

const byId = (id) => document.getElementById(id);
const [query, status, results, intro, sheet, file] = ["query", "status", "results", "intro", "sheet", "file"].map(byId);
const more = byId("more");
const { version, largest, most } = document.body.dataset;
const NAME = document.title;
const DEBOUNCE = 120; // milliseconds without a key before the server is asked
const AGAIN = 2500; // milliseconds between two looks at captions that are still being read
const SOON = 800; // the same at the beginning, when each look shows more
const AT_ONCE = 24; // pictures that load before anybody scrolls to them
const number = (count) => count.toLocaleString("en");
let asking = null; // the request whose answer is waited for
let showing = null; // the request of the sheet
let timer = 0;
let leaving = false; // the sheet is being closed by Back or Forward
let shown = []; // the pictures on the page

function make(tag, className, text) {
  const found = document.createElement(tag);
  if (className) found.className = className;
  if (text !== undefined) {
    found.textContent = text;
    found.dir = "auto";
  }
  return found;
}

function say(where, text, wrong = false) {
  where.textContent = text;
  where.classList.toggle("wrong", wrong);
  where.classList.remove("weak");
}

// The answer as an object; a refusal becomes an Error with its words.
async function ask(url, options) {
  let response;
  try {
    response = await fetch(url, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer. Is sightword search still running?");
  }
  const answer = await response.json().catch(() => ({ error: `The server answered ${response.status}.` }));
  if (answer.error) throw new Error([answer.error, answer.todo].filter(Boolean).join(" "));
  return answer;
}

const score = (value) => value.toFixed(3).replace("-", "−");

// A picture, or where there is none, its captions.
function pictureOf(picture, late = false) {
  const words = () => {
    const found = make("span", "words");
    found.append(...(picture.captions.length ? picture.captions : [picture.id]).map((text) => make("span", "", text)));
    return found;
  };
  if (!picture.image) return words();
  const image = make("img", "waiting");
  image.alt = picture.captions[0] || picture.id;
  image.addEventListener("load", () => image.classList.remove("waiting"), { once: true });
  image.addEventListener("error", () => image.replaceWith(words()), { once: true });
  image.loading = late ? "lazy" : "eager";
  image.src = `${picture.image}?${version}`;
  return image;
}

function tile(picture, place) {
  const item = make("li");
  const button = make("button", "tile");
  button.type = "button";
  const frame = make("span", "frame");
  frame.append(pictureOf(picture, place >= AT_ONCE));
  if (picture.image && picture.captions.length) {
    const over = make("span", "over");
    over.setAttribute("aria-hidden", "true"); // the picture's name says the first already
    over.append(...picture.captions.slice(0, 2).map((caption) => make("span", "", caption)));
    frame.append(over);
  }
  const under = make("span", "under");
  const scored = picture.score !== undefined;
  if (scored) under.append(make("span", "", `${place + 1}. ${score(picture.score)}`), barOf(picture));
  button.append(frame, under);
  button.disabled = !("split" in picture); // not read yet
  if (button.disabled) button.title = "Not read yet";
  button.addEventListener("click", () => openPicture(picture));
  item.append(button);
  return item;
}

// The score as a length. Numbers tell it to a screen reader.
function barOf(picture) {
  const bar = make("meter", "score-bar");
  bar.value = picture.share;
  bar.setAttribute("aria-hidden", "true");
  return bar;
}

const empty = () => {
  const item = make("li");
  item.setAttribute("aria-hidden", "true");
  const frame = make("span", "frame");
  frame.append(make("span", "waiting"));
  item.append(frame);
  return item;
};

const address = (path, parts) => {
  const given = Object.entries(parts).filter(([, value]) => value);
  return `${path}?${new URLSearchParams(given)}`;
};

// Finds as many pictures as the server gives by itself, or so many; without a sentence shows some of all.
async function search(top) {
  clearTimeout(timer);
  const text = query.value.trim();
  asking?.abort();
  document.title = text ? `${text} – ${NAME}` : NAME;
  intro.hidden = text !== "";
  const asked = { q: text, top };
  const mine = (asking = new AbortController());
  results.classList.add("old");
  try {
    if (!shown.length) results.replaceChildren(...Array.from({ length: AT_ONCE }, empty));
    let answer = await ask(address(text ? "/api/pictures" : "/api/some", asked), { signal: mine.signal });
    const none = text && !answer.of;
    if (none) answer = await ask("/api/some", { signal: mine.signal });
    const same = JSON.stringify(shown) === JSON.stringify(answer.pictures);
    shown = answer.pictures;
    if (!same || !shown.length) results.replaceChildren(...shown.map(tile));
    more.hidden = !text || none || shown.length >= Math.min(answer.of, most);
    if (none) {
      say(status, answer.of ? "No picture is read yet. The answers will appear here." : "There are no pictures.");
    } else if (text) {
      const milliseconds = Math.max(1, Math.round(answer.seconds * 1000));
      const found = `The best ${shown.length} of ${number(answer.of)} pictures, in ${milliseconds} ms.`;
      say(status, [answer.note, found].filter(Boolean).join(" "));
      status.classList.toggle("weak", answer.weak);
    } else {
      say(status, shown.length < answer.of ? `Showing ${shown.length} of ${number(answer.of)} pictures.` : "");
    }
  } catch (error) {
    if (error.name === "AbortError") return;
    shown = [];
    more.hidden = true;
    results.replaceChildren();
    say(status, error.message, true);
  }
  if (asking === mine) results.classList.remove("old");
}

function searchTyped() {
  remember({ q: query.value.trim() });
  search();
}

// The address says what is asked, so that it can be kept and sent to somebody. As a new one it is left by Back.
function remember(parts, asNew = false) {
  const next = new URL(location.pathname, location.href);
  for (const [name, value] of Object.entries(parts)) if (value) next.searchParams.set(name, value);
  if (next.href === location.href) return;
  if (asNew) history.pushState({ sheet: "picture" in parts }, "", next);
  else history.replaceState(history.state, "", next);
}

function openSheet(title, picture, own) {
  showing?.abort();
  showing = new AbortController();
  byId("sheet-title").textContent = title;
  byId("sheet-picture").replaceChildren(picture);
  byId("own-list").replaceChildren(...own.map((caption) => make("li", "", caption)));
  byId("own").hidden = own.length === 0;
  byId("found")?.replaceChildren();
  byId("alike-list").replaceChildren();
  byId("alike").hidden = true;
  say(byId("sheet-status"), "Looking…");
  if (!sheet.open) sheet.showModal();
  sheet.scrollTop = 0;
  return showing;
}

function fillSheet(answer) {
  fillAlike(answer.pictures);
  const found = byId("found");
  if (found) fillCaptions(found, answer);
  const share = Math.floor((100 * answer.read) / answer.of);
  const late = answer.problem ? "Preparing the captions failed" : "The captions are being prepared";
  say(byId("sheet-status"), answer.read < answer.of ? `${late} (${share} %): the best so far.` : "");
}

function fillAlike(pictures) {
  const list = byId("alike-list");
  const ids = pictures.map((picture) => picture.id).join("\n");
  byId("alike").hidden = pictures.length === 0;
  if (list.dataset.ids === ids && list.children.length) return;
  list.dataset.ids = ids;
  const items = pictures.map((picture) => {
    const item = make("li");
    const button = make("button", "frame");
    button.type = "button";
    button.title = `${score(picture.score)} ${picture.id}`;
    button.append(pictureOf(picture));
    button.addEventListener("click", () => openPicture(picture));
    item.append(button);
    return item;
  });
  list.replaceChildren(...items);
}

function fillCaptions(found, answer) {
  const lines = answer.captions.map((caption) => {
    const item = make("li");
    const button = make("button");
    button.type = "button";
    button.title = "Find pictures with this caption";
    const text = make("span", caption.own ? "own" : "", caption.own ? `${caption.text} ✓` : caption.text);
    button.append(text, make("span", "score", score(caption.score)));
    button.addEventListener("click", () => {
      sheet.close();
      remember({ q: caption.query }, true);
      query.value = caption.query;
      query.focus();
      search();
    });
    item.append(button);
    return item;
  });
  // What is in place already stays, so that the keyboard's place is not lost when an answer comes again.
  if (found.textContent !== lines.map((line) => line.textContent).join("")) found.replaceChildren(...lines);
}

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

async function openPicture(picture) {
  remember({ q: query.value.trim(), picture: picture.id }, !sheet.open);
  const mine = openSheet(picture.split ? `${picture.id} (${picture.split})` : picture.id, pictureOf(picture), picture.captions);
  mine.picture = picture;
  try {
    while (!mine.signal.aborted) {
      const answer = await ask(address("/api/picture", { picture: picture.id }), { signal: mine.signal });
      fillSheet(answer);
      if (answer.read >= answer.of || answer.problem) return;
      await pause(AGAIN);
    }
  } catch (error) {
    if (error.name !== "AbortError") say(byId("sheet-status"), error.message, true);
  }
}

async function openUpload(upload) {
  if (file.disabled) return say(status, byId("obstacle").textContent, true);
  const image = make("img");
  image.alt = "Your picture";
  const local = URL.createObjectURL(upload);
  image.addEventListener("error", () => image.replaceWith(make("span", "words", upload.name || "No picture")), { once: true });
  image.src = local;
  const mine = openSheet(upload.name || "Your picture", image, []);
  mine.signal.addEventListener("abort", () => URL.revokeObjectURL(local));
  try {
    if (upload.size > Number(largest)) throw new Error(`The picture's file is larger than ${Math.floor(largest / 2 ** 20)} MB.`);
    const headers = { "Content-Type": "application/octet-stream" };
    const answer = await ask("/api/picture", { method: "POST", body: upload, headers, signal: mine.signal });
    fillSheet(answer);
    if (!answer.picture) return;
    byId("own-list").replaceChildren(...answer.picture.captions.map((caption) => make("li", "", caption)));
    byId("own").hidden = answer.picture.captions.length === 0;
  } catch (error) {
    if (error.name !== "AbortError") say(byId("sheet-status"), error.message, true);
  }
}

query.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(searchTyped, DEBOUNCE);
});
byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  searchTyped();
});
for (const button of document.querySelectorAll("[data-query]")) {
  button.addEventListener("click", () => {
    query.value = button.dataset.query;
    query.focus();
    searchTyped();
  });
}
more.addEventListener("click", async () => {
  const before = shown.length;
  await search(Math.min(2 * before, most));
  results.querySelectorAll(".tile")[before]?.focus({ preventScroll: true }); // the first that is new
});
byId("pick").addEventListener("click", () => file.click());
file.addEventListener("change", () => {
  if (file.files.length) openUpload(file.files[0]);
  file.value = "";
});
byId("close").addEventListener("click", () => sheet.close());
sheet.addEventListener("click", (event) => {
  if (event.target === sheet) sheet.close(); // beside it
});
sheet.addEventListener("close", () => {
  const left = leaving;
  leaving = false;
  if (sheet.open) return; // this tells late of a closing: it is open for something else again
  showing?.abort();
  if (left) return;
  if (history.state?.sheet) history.back(); // to where it was opened
  else remember({ q: query.value.trim() });
});

// Keys: / to the sentence, arrows among the pictures, and from one open picture to the next.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (sheet.open) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const read = shown.filter((picture) => "split" in picture);
    const place = read.findIndex((picture) => picture.id === showing?.picture?.id);
    const next = place < 0 ? undefined : read[place + step];
    if (step && next) openPicture(next);
    return;
  }
  if (event.key === "/" && document.activeElement !== query) {
    event.preventDefault();
    query.focus();
    query.select();
    return;
  }
  const tiles = [...results.querySelectorAll(".tile:enabled")];
  const here = tiles.indexOf(document.activeElement);
  if (here < 0) {
    if (event.key === "ArrowDown" && document.activeElement === query && tiles.length) {
      event.preventDefault();
      tiles[0].focus();
    }
    return;
  }
  const columns = getComputedStyle(results).gridTemplateColumns.split(" ").length;
  const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns, Home: -here, End: tiles.length - 1 - here };
  if (!(event.key in steps)) return;
  event.preventDefault();
  const target = here + steps[event.key];
  if (target < 0) query.focus();
  else tiles[Math.min(target, tiles.length - 1)].focus();
});

let depth = 0; // dragging over a child leaves its parent
const withFiles = (event) => event.dataTransfer?.types.includes("Files");
addEventListener("dragenter", (event) => {
  if (withFiles(event)) document.body.classList.toggle("dropping", ++depth > 0);
});
addEventListener("dragleave", (event) => {
  if (withFiles(event)) document.body.classList.toggle("dropping", --depth > 0);
});
addEventListener("dragover", (event) => {
  if (withFiles(event)) event.preventDefault();
});
addEventListener("drop", (event) => {
  depth = 0;
  document.body.classList.remove("dropping");
  if (!withFiles(event)) return;
  event.preventDefault();
  if (event.dataTransfer.files.length) openUpload(event.dataTransfer.files[0]);
});

async function fromAddress() {
  const asked = new URLSearchParams(location.search);
  query.value = asked.get("q") ?? "";
  const id = asked.get("picture");
  await search();
  if (!id) return;
  try {
    openPicture((await ask(address("/api/picture", { picture: id }))).picture);
  } catch (error) {
    say(status, error.message, true);
  }
}
addEventListener("popstate", () => {
  if (sheet.open) {
    leaving = true;
    sheet.close();
  }
  const asked = new URLSearchParams(location.search);
  const other = (asked.get("q") ?? "") !== query.value.trim();
  if (asked.has("picture") || other) fromAddress();
});

const duration = (seconds) => (seconds < 90 ? `about ${Math.ceil(seconds)} s left` : `about ${Math.round(seconds / 60)} min left`);
const plural = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;

// Tells how far the reading is, and shows the pictures that came, unless somebody looks at one of the others.
async function watchReading() {
  const [progress, count, bar] = ["progress", "count", "reading"].map(byId);
  let seen = -1;
  let closer = 0;
  const looks = []; // the last ones: the store gives thousands of pictures at once
  try {
    for (;;) {
      const { pictures, captions, quick, unusable, problem } = await ask("/api/progress");
      const { read, left } = pictures;
      bar.hidden = left === 0;
      bar.value = read / Math.max(1, read + left);
      count.textContent = left ? `${number(read)} of ${plural(read + left, "picture")} read` : plural(read, "picture");
      const parts = [];
      if (left && read) {
        looks.push({ read, time: performance.now() });
        if (looks.length > 12) looks.shift();
        const rate = (read - looks[0].read) / (performance.now() - looks[0].time);
        if (rate > 0) parts.push(duration(left / rate / 1000));
      }
      if (!left && quick) parts.push(`a closer look at ${plural(quick, "picture")} goes on`);
      if (unusable) parts.push(`${number(unusable)} cannot be used`);
      if (captions.read < captions.of) parts.push(`captions: ${Math.floor((100 * captions.read) / captions.of)} % prepared`);
      if (problem) parts.push(`failed (${problem})`);
      progress.textContent = parts.map((part) => `, ${part}`).join("");
      const busy = sheet.open || results.contains(document.activeElement);
      const unread = shown.some((picture) => !("split" in picture));
      const better = (seen >= 0 && read > seen) || (closer && !quick);
      if (better && !busy && (query.value.trim() || unread || shown.length < AT_ONCE)) {
        await search(shown.length > AT_ONCE ? shown.length : undefined);
      }
      if (seen < 0 || !busy) [seen, closer] = [read, quick];
      const isDone = !left && !quick && !closer && captions.read >= captions.of;
      if ((isDone || problem) && seen === read) return;
      await pause(read < 2 * AT_ONCE ? SOON : AGAIN);
    }
  } catch {
    // the next search says that the server is gone
  }
}

fromAddress();
watchReading();
