// node makes an element of the page, or of a drawing in it.
function node(name, attributes, ...children) {
  const svg = ["svg", "path", "circle", "line", "rect", "text", "title", "desc", "g"].includes(name);
  const n = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [k, v] of Object.entries(attributes || {})) n.setAttribute(k, v);
  n.append(...children);
  return n;
}
