import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { createWebGpuBackend, type WebGpuBackend } from "@backplane/backend-webgpu";
import { type ComputeBackend, download, upload } from "@backplane/core";
import { commandLine, wholeNumber } from "./command-line.js";
import { trainee } from "./training/models.js";
import { type ModelName, modelNames } from "./training/task.js";

const usage = `Times the first results of new processes on WebGPU, in milliseconds: init, and from then on until a first
result is there.

  --rounds N     processes of each kind (default 3)
  --at-once      let calls wait for their kernels, which are then compiled one after the other
  --warmup       call warmup first; its time counts
  --help         this text

"cold" starts with an empty folder for what NVIDIA's driver keeps of compiled kernels, "again" finds it full. Other drivers
may keep theirs elsewhere.
`;

type Work = (backend: ComputeBackend, isRead: boolean) => Promise<void>;

const ones = (length: number): Float32Array => new Float32Array(length).fill(1);

const step =
  (model: ModelName): Work =>
  async (backend, isRead) => {
    const { step: train, loss } = trainee(model, backend);
    await train();
    if (isRead) await loss();
  };

const works: Readonly<Record<string, Work>> = {
  "gemm 512^3": async (backend, isRead) => {
    const n = 512;
    const [a, b, c] = [upload(backend, ones(n * n)), upload(backend, ones(n * n)), backend.alloc(4 * n * n)];
    backend.gemm({ m: n, n, k: n, a, b, c });
    if (isRead) await download(backend, c, Float32Array, n * n);
  },
  "attention, 4 heads, length 256": async (backend, isRead) => {
    const [heads, length, headSize] = [4, 256, 64];
    const elements = heads * length * headSize;
    const [q, k, v] = [ones(elements), ones(elements), ones(elements)].map((data) => upload(backend, data));
    const out = backend.alloc(4 * elements);
    const sizes = { batch: 1, heads, queryLength: length, keyLength: length, headSize };
    backend.attention({ ...sizes, q: q!, k: k!, v: v!, out });
    if (isRead) await download(backend, out, Float32Array, elements);
  },
  ...Object.fromEntries(modelNames.map((name) => [`training step and loss, ${name}`, step(name)])),
};

interface How {
  readonly atOnce: boolean;
  readonly warmup: boolean;
}

/** Milliseconds of `init` and after it. */
async function measure(work: Work, { atOnce, warmup }: How): Promise<readonly [number, number]> {
  const backend: WebGpuBackend = createWebGpuBackend();
  const start = performance.now();
  await backend.init();
  const opened = performance.now();
  // Who has the device sees the same buffers, so that nothing may be held back.
  if (atOnce) backend.native();
  if (warmup) await backend.warmup((plan) => work(plan, false));
  await work(backend, true);
  const done = performance.now();
  await backend.dispose();
  return [opened - start, done - opened];
}

const options = commandLine(usage, () => {
  const { values } = parseArgs({
    options: {
      rounds: { type: "string", default: "3" },
      "at-once": { type: "boolean", default: false },
      warmup: { type: "boolean", default: false },
      only: { type: "string" },
      help: { type: "boolean", default: false },
    },
  });
  const { help, warmup, only } = values;
  if (only !== undefined && works[only] === undefined)
    throw new Error(`--only is ${only}; allowed: ${Object.keys(works).join("; ")}`);
  return { help, warmup, only, atOnce: values["at-once"], rounds: wholeNumber("rounds", values.rounds, 1) };
});

function timesInChild(name: string, cache: string): readonly [number, number] {
  const flags = [options.atOnce ? "--at-once" : "", options.warmup ? "--warmup" : ""].filter(Boolean);
  const env = { ...process.env, __GL_SHADER_DISK_CACHE_PATH: cache, XDG_CACHE_HOME: cache, HOME: cache };
  const line = [fileURLToPath(import.meta.url), "--only", name, ...flags];
  try {
    return JSON.parse(execFileSync(process.execPath, line, { env, encoding: "utf8" }));
  } catch {
    // It has said why.
    process.exit(1);
  }
}

if (options.only !== undefined) console.log(JSON.stringify(await measure(works[options.only]!, options)));
else
  for (const name of Object.keys(works)) {
    const times: Record<string, (readonly [number, number])[]> = { cold: [], again: [] };
    for (let round = 0; round < options.rounds; round++) {
      const cache = mkdtempSync(join(tmpdir(), "first-use-"));
      for (const list of Object.values(times)) list.push(timesInChild(name, cache));
      rmSync(cache, { recursive: true });
    }
    for (const [when, list] of Object.entries(times)) {
      const [init, first] = [0, 1].map((i) => list.map((pair) => pair[i]!.toFixed(0)).join(", "));
      console.log(`${name}, ${when}: init ${init}; first result ${first}`);
    }
  }
