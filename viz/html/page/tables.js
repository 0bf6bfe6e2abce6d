// Tables are sorted by the button in the head of a column, and those of many rows are
// filtered by text. Both work by keyboard.

const filtered = 12; // rows from which on a table has a filter

function sortable(table) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  const value = (row, i) => row.cells[i]?.textContent.trim() ?? "";
  const number = (text) => {
    const m = /^([−+-]?)([\d.,]+)\s*(ns|µs|ms|s)?/.exec(text);
    const scale = { ns: 1, "µs": 1e3, ms: 1e6, s: 1e9 }[m?.[3]] || 1;
    return m ? (m[1] && m[1] !== "+" ? -1 : 1) * Number(m[2].replaceAll(",", "")) * scale : -Infinity;
  };
  heads.forEach((head, i) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach((h) => h.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const rows = [...body.rows];
      rows.sort((a, b) => head.classList.contains("number")
        ? number(value(a, i)) - number(value(b, i)) : value(a, i).localeCompare(value(b, i), undefined, { numeric: true }));
      body.append(...(up ? rows : rows.reverse()));
    });
  });
}

function filterable(table) {
  const rows = [...table.tBodies[0].rows];
  if (rows.length < filtered) return;
  const label = document.createElement("label"), input = document.createElement("input"), found = document.createElement("span");
  label.className = "filtering";
  found.className = "found";
  found.setAttribute("role", "status");
  Object.assign(input, { type: "search", className: "filter", placeholder: "filter rows", spellcheck: false });
  input.setAttribute("aria-label", "filter rows");
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let n = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      n += row.hidden ? 0 : 1;
    }
    found.textContent = words.length ? ` ${n} of ${rows.length} rows` : "";
  });
  label.append(input, found);
  table.parentElement.before(label);
}

function tables() {
  for (const table of document.querySelectorAll(".table > table")) {
    sortable(table);
    filterable(table);
  }
}
