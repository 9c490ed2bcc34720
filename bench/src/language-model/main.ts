import { writeFileSync } from "node:fs";
import { createCpuBackend } from "@backplane/backend-cpu";
import { createWebGpuBackend } from "@backplane/backend-webgpu";
import type { ComputeBackend } from "@backplane/core";
import { checkWritable } from "@backplane/example-digits/disk.js";
import { commandLine } from "../command-line.js";
import { installPeers } from "../cpu/installed.js";
import { loadOnnxRuntimeWeb } from "../cpu/onnxruntime.js";
import { loadOnnxRuntimeOnGpu } from "../cpu/onnxruntime-gpu.js";
import { provideGpu } from "../gpu-page.js";
import { quantile } from "../statistics.js";
import type { Decoder } from "./decoder.js";
import type { Products } from "./onnx-graph.js";
import { openOnnxOnCpu } from "./onnxruntime-cpu.js";
import { openOnnxOnGpu } from "./onnxruntime-gpu.js";
import { parseLanguageModelOptions, usage } from "./options.js";
import { openOurs } from "./ours.js";
import { randomWeights } from "./weights.js";

/*
 * How fast a language model with weights of 4 or 8 bits writes, next to onnxruntime-web on the same GPU or CPU: the same random
 * weights, in one process and in turns. The logits of all must agree first.
 */

/** Distance of the logits, as a share of their size: f16 has 11 bits, and each layer rounds several times. */
const allowedDistance = 0.05;

const checkedTokens = [5, 17, 300, 12];

const options = commandLine(usage, () => parseLanguageModelOptions(process.argv.slice(2)));

/** Ways to multiply on the CPU, the fastest of which is what ours is compared with. */
const cpuProducts: readonly Products[] = [
  { op: "MatMulNBits", accuracyLevel: 0 },
  { op: "MatMulNBits", accuracyLevel: 4 },
  { op: "MatMul" },
];

/** What is compared with ours: opens decoders of one session. */
interface Opening {
  readonly name: string;
  open(): Promise<readonly Decoder[]>;
}

async function openings(backend: ComputeBackend, room: number): Promise<readonly Opening[]> {
  const { model, dtype, cpu, captured, threads } = options;
  if (cpu) {
    const runtime = await loadOnnxRuntimeWeb(threads);
    return [
      {
        name: "backplane, inputs rounded",
        open: async () => [openOurs(backend, model, weights, { dtype, room, mayRoundInput: true })],
      },
      ...cpuProducts.map((products) => ({
        name: `onnxruntime-web, ${Object.values(products).join(", level ")}`,
        open: async () => [await openOnnxOnCpu(runtime, model, weights, { room, products })],
      })),
    ];
  }
  await provideGpu();
  const runtime = await loadOnnxRuntimeOnGpu("C++");
  return (captured ? [false, true] : [false]).map((captured) => ({
    name: `onnxruntime-web${captured ? ", captured" : ""}`,
    open: () => openOnnxOnGpu(runtime, model, weights, { dtype, room, captured }),
  }));
}

/** |a - b| / |b| */
function distance(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let [differences, squares] = [0, 0];
  for (let i = 0; i < b.length; i++) {
    differences += (a[i]! - b[i]!) ** 2;
    squares += b[i]! ** 2;
  }
  return Math.sqrt(differences / squares);
}

async function main(): Promise<void> {
  const { model, dtype, bits, first, tokens, rounds, cpu, threads } = options;
  // One thread is the caller's, which is also that of the others.
  const backend = cpu ? createCpuBackend({ threads: threads === 1 ? 0 : threads }) : createWebGpuBackend();
  await backend.init();
  const room = first + tokens + 1;
  const ours = openOurs(backend, model, weights, { dtype, room });
  const others: Decoder[] = [];
  const expected = await ours.logits(checkedTokens);
  for (const { name, open } of await openings(backend, room))
    try {
      const opened = await open();
      const away = distance(await opened[0]!.logits(checkedTokens), expected);
      console.log(`${name}: logits ${away.toPrecision(2)} away`);
      if (!(away <= allowedDistance)) throw new Error(`allowed: ${allowedDistance}`);
      others.push(...opened);
    } catch (error) {
      process.exitCode = 1;
      console.error(`${name}: ${(error as Error).message}`);
    }
  const device = backend.capabilities.device.name;
  console.log(
    `${device}, Node.js ${process.versions.node}: ${options.shape}, ${model.layers} layers, ${bits} bits, ${dtype}`,
  );
  const decoders = [ours, ...others];
  const samples = decoders.map((): number[] => []);
  for (const decoder of decoders) await decoder.decode(first, tokens);
  for (let round = 0; round < rounds; round++)
    for (const [i, decoder] of decoders.entries()) samples[i]!.push(await decoder.decode(first, tokens));
  decoders.forEach(({ name }, i) => {
    const [median, best] = [quantile(samples[i]!, 0.5), Math.min(...samples[i]!)];
    const ratio = quantile(
      samples[i]!.map((seconds, round) => seconds / samples[0]![round]!),
      0.5,
    );
    console.log(
      `${name}: ${(1 / median).toPrecision(3)} tokens/s, best ${(1 / best).toPrecision(3)}; ` +
        `${ratio.toPrecision(3)} times the time of ours`,
    );
  });
  if (options.json !== undefined)
    writeFileSync(
      options.json,
      `${JSON.stringify({
        ...{ device, dtype, bits, shape: options.shape, layers: model.layers, first, tokens },
        secondsPerToken: Object.fromEntries(decoders.map(({ name }, i) => [name, samples[i]])),
      })}\n`,
    );
  await ours.close();
  await backend.dispose();
}

const failure = installPeers();
if (failure !== undefined) throw new Error(failure);
if (options.json !== undefined) await checkWritable(options.json);
const weights = randomWeights(options.model, options.bits);
await main();
// onnxruntime-web leaves a device behind.
process.exit();
