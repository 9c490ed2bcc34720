import { parseArgs } from "node:util";
import { cpu, createCpuBackend } from "@backplane/backend-cpu";
import { createWebGpuBackend, webgpu } from "@backplane/backend-webgpu";
import { BackendRegistry, copyBetween, SwitchableBackend } from "@backplane/core";

const help = `Times moves of contents between the CPU backend and WebGPU, in turns with transfers of each alone, in GB/s: of memory that
exists, and in whole swaps of a SwitchableBackend, whose memory is new each time.

  --mebibytes N   to move (default 256); swaps move four times as many
  --threads LIST  worker threads of the CPU backend, with commas between (default 4,1,0)
  --rounds N      (default 5)
  --help          this text`;

const { values } = parseArgs({
  options: {
    mebibytes: { type: "string", default: "256" },
    threads: { type: "string", default: "4,1,0" },
    rounds: { type: "string", default: "5" },
    help: { type: "boolean", default: false },
  },
});
const bytes = Number(values.mebibytes) * 2 ** 20;
const rounds = Number(values.rounds);

async function existingMemory(threads: number): Promise<void> {
  await using gpu = createWebGpuBackend();
  await using host = createCpuBackend({ threads });
  for (const backend of [gpu, host]) await backend.init();
  const [there, here, array] = [gpu.alloc(bytes), host.alloc(bytes), new Uint8Array(bytes).fill(1)];
  host.fill(here, 1, bytes / 4);
  await host.synchronize();
  const moves: Readonly<Record<string, () => Promise<void>>> = {
    async upload() {
      gpu.copyHtoD(there, array);
      await gpu.synchronize();
    },
    download: () => gpu.copyDtoH(array, there),
    async "CPU to GPU"() {
      await copyBetween(host, here, gpu, there, bytes);
      await gpu.synchronize();
    },
    async "GPU to CPU"() {
      await copyBetween(gpu, there, host, here, bytes);
      await host.synchronize();
    },
  };
  const rates = new Map<string, number[]>();
  for (let round = 0; round <= rounds; round++)
    for (const [name, move] of Object.entries(moves)) {
      const start = performance.now();
      await move();
      const rate = bytes / (performance.now() - start) / 1e6;
      // The first round makes staging buffers.
      if (round > 0) rates.set(name, [...(rates.get(name) ?? []), rate]);
    }
  for (const [name, list] of rates) {
    const sorted = [...list].sort((a, b) => a - b);
    const [median, best] = [sorted[sorted.length >> 1]!, sorted.at(-1)!];
    console.log(`threads ${threads}, ${name}: ${median.toFixed(2)} GB/s (best ${best.toFixed(2)})`);
  }
}

async function swaps(threads: number): Promise<void> {
  await using backend = new SwitchableBackend(new BackendRegistry([webgpu(), cpu({ threads })]), "webgpu");
  await backend.init();
  for (let i = 0; i < 8; i++) backend.fill(backend.alloc(bytes / 2), i, bytes / 8);
  for (let i = 0; i < 2 * rounds; i++) {
    const { to, bytes: moved, milliseconds } = await backend.use(i % 2 === 0 ? "cpu" : "webgpu");
    const rate = moved / milliseconds / 1e6;
    console.log(`threads ${threads}, swap to ${to}: ${milliseconds.toFixed(0)} ms, ${rate.toFixed(2)} GB/s`);
  }
}

if (values.help) console.log(help);
else
  for (const threads of values.threads.split(",").map(Number)) {
    await existingMemory(threads);
    await swaps(threads);
  }
