import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { createWebGpuBackend } from "@backplane/backend-webgpu";
import type { FloatType } from "@backplane/core";
import { checkWritable } from "@backplane/example-digits/disk.js";
import { type Shape, shapes } from "@backplane/example-story";
import { commandLine, wholeNumber } from "../command-line.js";
import { installPeers } from "../cpu/installed.js";
import { loadOnnxRuntimeOnGpu } from "../cpu/onnxruntime-gpu.js";
import { provideGpu } from "../gpu-page.js";
import { quantile } from "../statistics.js";
import type { Decoder } from "./decoder.js";
import { openOnnxDecoders } from "./onnxruntime.js";
import { openOurs } from "./ours.js";
import { randomWeights } from "./weights.js";

/*
 * How fast a language model with weights of 4 bits writes, next to onnxruntime-web on the same GPU: the same random
 * weights, in one process and in turns. The logits of both must agree first.
 */

const usage = `node bench/dist/language-model/main.js [options]

  --shape NAME  ${Object.keys(shapes).join(", ")} (default stories110M)
  --layers N    only so many layers of it
  --dtype f16|f32  the type in which it computes (default f16)
  --first N     the place from which on tokens are written (default 256)
  --tokens N    tokens of a round (default 64)
  --rounds N    how often everybody is timed (default 5)
  --captured    onnxruntime-web also with a captured graph, in a session of its own
  --json FILE   also writes the samples
  --help        this text
`;

/** Distance of the logits, as a share of their size: f16 has 11 bits, and each layer rounds several times. */
const allowedDistance = 0.05;

const checkedTokens = [5, 17, 300, 12];

const options = commandLine(usage, () => {
  const { values } = parseArgs({
    options: {
      shape: { type: "string", default: "stories110M" },
      layers: { type: "string" },
      dtype: { type: "string", default: "f16" },
      first: { type: "string", default: "256" },
      tokens: { type: "string", default: "64" },
      rounds: { type: "string", default: "5" },
      captured: { type: "boolean", default: false },
      json: { type: "string" },
      help: { type: "boolean", default: false },
    },
  });
  if (!(values.shape in shapes))
    throw new Error(`--shape is ${values.shape}; allowed: ${Object.keys(shapes).join(", ")}`);
  const { dtype } = values;
  if (dtype !== "f16" && dtype !== "f32") throw new Error(`--dtype is ${dtype}; allowed: f16, f32`);
  const whole: Shape = shapes[values.shape as keyof typeof shapes];
  const layers = values.layers === undefined ? whole.layers : wholeNumber("layers", values.layers, 1);
  return {
    ...values,
    dtype: dtype as FloatType,
    model: { ...whole, layers },
    first: wholeNumber("first", values.first, 1),
    tokens: wholeNumber("tokens", values.tokens, 1),
    rounds: wholeNumber("rounds", values.rounds, 1),
  };
});

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
  const failure = installPeers();
  if (failure !== undefined) throw new Error(failure);
  const { model, dtype, first, tokens, rounds } = options;
  const backend = createWebGpuBackend();
  await backend.init();
  await provideGpu();
  const runtime = await loadOnnxRuntimeOnGpu("C++");
  const weights = randomWeights(model);
  const room = first + tokens + 1;
  const ours = openOurs(backend, model, weights, { dtype, room });
  const others: Decoder[] = [];
  const expected = await ours.logits(checkedTokens);
  for (const captured of options.captured ? [false, true] : [false])
    try {
      const opened = await openOnnxDecoders(runtime, model, weights, { dtype, room, captured });
      const away = distance(await opened[0].logits(checkedTokens), expected);
      console.log(`onnxruntime-web${captured ? ", captured" : ""}: logits ${away.toPrecision(2)} away`);
      if (!(away <= allowedDistance)) throw new Error(`allowed: ${allowedDistance}`);
      others.push(...opened);
    } catch (error) {
      process.exitCode = 1;
      console.error(`onnxruntime-web${captured ? ", captured" : ""}: ${(error as Error).message}`);
    }
  const device = backend.capabilities.device.name;
  console.log(
    `${device}, Node.js ${process.versions.node}: ${options.shape}, ${model.layers} layers, 4 bits, ${dtype}`,
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
        ...{ device, dtype, shape: options.shape, layers: model.layers, first, tokens },
        secondsPerToken: Object.fromEntries(decoders.map(({ name }, i) => [name, samples[i]])),
      })}\n`,
    );
  await ours.close();
  await backend.dispose();
}

if (options.json !== undefined) await checkWritable(options.json);
await main();
// onnxruntime-web leaves a device behind.
process.exit();
