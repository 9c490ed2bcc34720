import { parseArgs } from "node:util";
import { createCpuBackend } from "@backplane/backend-cpu";
import { createWebGpuBackend } from "@backplane/backend-webgpu";
import {
  type BackendDriver,
  type ComputeBackend,
  createBackend,
  type DriverDescription,
  type DriverRecording,
} from "@backplane/core";
import { commandLine } from "./command-line.js";
import { quantile } from "./statistics.js";

const usage = `node bench/dist/host.js [options]

Times what the host takes for a small call, plain and recorded, without waiting for the device: with a driver that does
nothing, and with the CPU backend.

  --webgpu  with WebGPU, too
  --help    this text
`;

const { webgpu } = commandLine(usage, () => {
  const options = {
    webgpu: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  } as const;
  return parseArgs({ options }).values;
});

/** What remains is what core costs. */
class NullDriver implements BackendDriver<object> {
  readonly name: string;
  readonly kernels: BackendDriver<object>["kernels"] = {
    unary: { supports: [{ dtype: ["f32"] }], run() {} },
  };
  readonly record?: () => DriverRecording;

  constructor(records: boolean) {
    this.name = records ? "nothing, with recordings of its own" : "nothing";
    if (records) this.record = () => ({ plan: (_, enqueue) => enqueue(), run() {}, dispose() {} });
  }

  async open(): Promise<DriverDescription> {
    return {
      device: { kind: "cpu", name: "none", software: true, details: {} },
      limits: { maxAllocationBytes: 2 ** 30 },
      numerics: {
        ...{ nan: "kept", infinity: "kept", subnormals: "kept", signedZero: "kept" },
        ...{ rounding: "nearest-even", deterministic: true },
      },
    };
  }

  async close(): Promise<void> {}
  async synchronize(): Promise<void> {}
  alloc(): object {
    return {};
  }
  free(): void {}
  write(): void {}
  async read(): Promise<void> {}
  copy(): void {}
  fill(): void {}
  reservedBytes(): number {
    return 0;
  }
  native(): undefined {}
}

const operations = 1000;
const samples = 60;

async function measure(backend: ComputeBackend): Promise<void> {
  await backend.init();
  const n = 1024;
  const [a, b] = [backend.alloc(4 * n), backend.alloc(4 * n)];
  const calls = (): void => {
    for (let i = 0; i < operations; i += 2) {
      backend.unary({ kind: "neg", n, input: a, output: b });
      backend.unary({ kind: "neg", n, input: b, output: a });
    }
  };
  const step = backend.record(calls);
  const ways = { plain: calls, recorded: () => step.run() };
  const microseconds: Record<keyof typeof ways, number[]> = { plain: [], recorded: [] };
  for (let sample = -10; sample < samples; sample++)
    for (const way of ["plain", "recorded"] as const) {
      const start = performance.now();
      ways[way]();
      const spent = performance.now() - start;
      await backend.synchronize();
      if (sample >= 0) microseconds[way].push((1000 * spent) / operations);
    }
  const { plain, recorded } = microseconds;
  console.log(
    `${backend.name}: ${quantile(plain, 0.5).toFixed(3)} us per plain call, ${quantile(recorded, 0.5).toFixed(3)} us per recorded one`,
  );
  step.dispose();
  await backend.dispose();
}

await measure(createBackend(new NullDriver(false)));
await measure(createBackend(new NullDriver(true)));
await measure(createCpuBackend());
if (webgpu) await measure(createWebGpuBackend());
