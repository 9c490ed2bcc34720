// Opens a backend, does many rounds of work on it, closes it, and then has to end by itself:
//   node rounds.js <cpu0 | cpu2 | webgpu> <rounds>
// Prints one line of JSON.
import { createCpuBackend } from "@backplane/backend-cpu";
import { createWebGpuBackend } from "@backplane/backend-webgpu";
import type { ComputeBackend } from "@backplane/core";
import { collectGarbage } from "#src/garbage.js";

const creators: Readonly<Record<string, () => ComputeBackend>> = {
  cpu0: () => createCpuBackend({ threads: 0 }),
  cpu2: () => createCpuBackend({ threads: 2 }),
  webgpu: () => createWebGpuBackend(),
};

const [name = "", count = ""] = process.argv.slice(2);
const rounds = Number(count);
const backend = creators[name]!();
await backend.init();

function round(index: number): Promise<number> | undefined {
  const n = 16 + (index % 13) * 8;
  const [a, b, c] = [backend.alloc(4 * n), backend.alloc(4 * n, { zero: false }), backend.alloc(4 * n)];
  backend.fill(a, (index % 1000) + 1, n);
  backend.unary({ kind: "neg", n, input: a, output: b });
  backend.binary({ kind: "sub", n, a, b, output: c });
  const last = new Float32Array(1);
  const read = index % 500 === 0 ? backend.copyDtoH(last, { handle: c, byteOffset: 4 * (n - 1) }) : undefined;
  for (const handle of [a, b, c]) backend.free(handle);
  return read?.then(() => last[0]! - 2 * ((index % 1000) + 1));
}

/** The most that the process has had so far. */
const mostResidentBytes = () => 1024 * process.resourceUsage().maxRSS;

let wrong = 0;
let early = { reservedBytes: 0, mostResidentBytes: 0 };
for (let index = 1; index <= rounds; index++) {
  const error = round(index);
  if (error !== undefined) {
    if ((await error) !== 0) wrong++;
    // Else the most depends on when the engine finds time to collect.
    collectGarbage();
  }
  if (index === Math.floor(rounds / 3)) {
    await backend.synchronize();
    early = { reservedBytes: backend.memory().reservedBytes, mostResidentBytes: mostResidentBytes() };
  }
}
await backend.synchronize();
const { liveAllocations, liveBytes, reservedBytes } = backend.memory();
const late = { reservedBytes, mostResidentBytes: mostResidentBytes() };
await backend.dispose();
const disposed = backend.memory();
console.log(JSON.stringify({ wrong, liveAllocations, liveBytes, early, late, disposed }));
