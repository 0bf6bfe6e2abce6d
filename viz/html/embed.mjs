// Packs ECharts, and the licences of what is in it, into assets/. Run by `go generate ./viz/html`.
// With --check it writes nothing and fails if the assets are not what package-lock.json pins.
import { readFileSync, writeFileSync } from "node:fs";
import { gunzipSync, gzipSync } from "node:zlib";

const modules = "node_modules";
const script = readFileSync(`${modules}/echarts/dist/echarts.min.js`);
const licences = ["echarts/NOTICE", "echarts/LICENSE", "echarts/licenses/LICENSE-d3", "zrender/LICENSE", "tslib/LICENSE.txt"]
  .map((name) => `${name}\n\n${readFileSync(`${modules}/${name}`, "utf8").trim()}\n`).join("\n" + "-".repeat(80) + "\n\n");

const packed = "assets/echarts.min.js.gz", notice = "assets/LICENSES.txt";
if (process.argv.includes("--check")) {
  const same = gunzipSync(readFileSync(packed)).equals(script) && readFileSync(notice, "utf8") === licences;
  if (!same) {
    console.error("viz/html/assets is not what package-lock.json pins (run go generate ./viz/html)");
    process.exit(1);
  }
} else {
  writeFileSync(packed, gzipSync(script, { level: 9 }));
  writeFileSync(notice, licences);
}
