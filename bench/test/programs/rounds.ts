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

/** Rounds until a result is waited for, so that few are under way, and until garbage is collected, so that little is kept. */
const [untilRead, untilCollected] = [50, 500];

function round(index: number): Promise<number> | undefined {
  const n = 16 + (index % 13) * 8;
  const [a, b, c] = [backend.alloc(4 * n), backend.alloc(4 * n, { zero: false }), backend.alloc(4 * n)];
  backend.fill(a, (index % 1000) + 1, n);
  backend.unary({ kind: "neg", n, input: a, output: b });
  backend.binary({ kind: "sub", n, a, b, output: c });
  const last = new Float32Array(1);
  const read =
    index % untilRead === 0 ? backend.copyDtoH(last, { handle: c, byteOffset: 4 * (n - 1) }) : undefined;
  for (const handle of [a, b, c]) backend.free(handle);
  return read?.then(() => last[0]! - 2 * ((index % 1000) + 1));
}

/**
 * What is held when nothing is under way and garbage is collected. The most that the process has had would depend on how far a busy
 * machine has once let the device or the engine fall behind.
 */
async function held() {
  await backend.synchronize();
  collectGarbage();
  return { reservedBytes: backend.memory().reservedBytes, residentBytes: process.memoryUsage().rss };
}

let wrong = 0;
let early: Awaited<ReturnType<typeof held>> | undefined;
for (let index = 1; index <= rounds; index++) {
  const error = round(index);
  if (error !== undefined && (await error) !== 0) wrong++;
  if (index % untilCollected === 0) collectGarbage();
  if (index === Math.floor(rounds / 3)) early = await held();
}
const late = await held();
const { liveAllocations, liveBytes } = backend.memory();
await backend.dispose();
const disposed = backend.memory();
console.log(JSON.stringify({ wrong, liveAllocations, liveBytes, early, late, disposed }));
