import { parseArgs } from "node:util";
import { commandLine } from "../command-line.js";
import { algorithms, type Cluster, copySeconds, simulate } from "./simulation.js";

const usage = `node bench/dist/ranks/main.js

Simulates an all-reduce on 8, 64 and 1,024 ranks, by a ring and by a tree, and says what limits it.

  --help  this text
`;

commandLine(usage, () => parseArgs({ options: { help: { type: "boolean", default: false } } }).values);

/** Eight GPUs to a host, whose copies are as measured on an H200, and 100 Gbit/s between hosts. */
const cluster: Cluster = {
  ranksPerHost: 8,
  local: { latency: 1e-6, bandwidth: 10e9 },
  remote: { latency: 3e-6, bandwidth: 12.5e9 },
  down: 7e9,
  up: 7.6e9,
};

const sizes = [4e3, 1e6, 26.2144e6, 400e6];

const rows = [8, 64, 1024].flatMap((ranks) =>
  sizes.map((bytes) => {
    const [ring, tree] = [algorithms.ring, algorithms.tree].map((steps) =>
      simulate(steps(ranks), ranks, bytes, cluster),
    );
    const copies = copySeconds(bytes, cluster);
    const limit = copies > Math.min(ring!, tree!) ? "copies" : ring! < tree! ? "ring" : "tree";
    return [
      ranks,
      bytes / 1e6,
      ...[ring!, tree!, copies].map((seconds) => (1e3 * seconds).toPrecision(3)),
      limit,
    ];
  }),
);
const table = [
  ["ranks", "MB", "ring, ms", "tree, ms", "copies, ms", "limit"],
  ["---:", "---:", "---:", "---:", "---:", "---"],
  ...rows,
];
for (const row of table) console.log(`| ${row.join(" | ")} |`);
