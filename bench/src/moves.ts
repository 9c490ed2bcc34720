import { parseArgs } from "node:util";
import { cpu, createCpuBackend } from "@backplane/backend-cpu";
import { createWebGpuBackend, webgpu } from "@backplane/backend-webgpu";
import { BackendRegistry, copyBetween, SwitchableBackend } from "@backplane/core";
import { commandLine, wholeNumber } from "./command-line.js";
import { quantile } from "./statistics.js";

const usage = `Times moves of contents between the CPU backend and WebGPU, in turns with transfers of each alone, in GB/s: of memory that
exists, and in whole swaps of a SwitchableBackend, whose memory is new each time.

  --mebibytes N   to move (default 256); swaps move four times as many
  --threads LIST  worker threads of the CPU backend, with commas between (default 4,1,0)
  --rounds N      (default 5)
  --help          this text
`;

const {
  bytes,
  rounds,
  threads: counts,
} = commandLine(usage, () => {
  const { values } = parseArgs({
    options: {
      mebibytes: { type: "string", default: "256" },
      threads: { type: "string", default: "4,1,0" },
      rounds: { type: "string", default: "5" },
      help: { type: "boolean", default: false },
    },
  });
  return {
    help: values.help,
    bytes: wholeNumber("mebibytes", values.mebibytes, 1) * 2 ** 20,
    threads: values.threads.split(",").map((text) => wholeNumber("threads", text, 0)),
    rounds: wholeNumber("rounds", values.rounds, 1),
  };
});

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
    const [median, best] = [quantile(list, 0.5), Math.max(...list)];
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

for (const threads of counts) {
  await existingMemory(threads);
  await swaps(threads);
}
