import { parseArgs } from "node:util";
import type { FloatType, QuantizedBits } from "@backplane/core";
import { BLOCK, type Shape, shapes } from "@backplane/example-story";
import { oneOf, wholeNumber } from "../command-line.js";

const weightBits = { q4: 4, q8: 8 } as const satisfies Record<string, QuantizedBits>;
const weightNames = Object.keys(weightBits) as (keyof typeof weightBits)[];
const shapeNames = Object.keys(shapes) as (keyof typeof shapes)[];

export const usage = `node bench/dist/language-model/main.js [options]

  --shape NAME  ${shapeNames.join(", ")} (default stories110M)
  --layers N    only so many layers of it
  --weights q4|q8  bits of a weight (default q4)
  --dtype f16|f32  the type in which it computes on the GPU (default f16)
  --first N     the place from which on tokens are written (default 256)
  --tokens N    tokens of a round (default 64)
  --rounds N    how often everybody is timed (default 5)
  --captured    onnxruntime-web also with a captured graph, in a session of its own
  --cpu         on the CPU, in f32, onnxruntime-web in WebAssembly
  --threads N   threads on the CPU (default 2)
  --json FILE   also writes the samples
  --help        this text
`;

export interface LanguageModelOptions {
  readonly shape: string;
  readonly model: Shape;
  readonly bits: QuantizedBits;
  readonly dtype: FloatType;
  readonly first: number;
  readonly tokens: number;
  readonly rounds: number;
  readonly captured: boolean;
  readonly cpu: boolean;
  readonly threads: number;
  readonly json: string | undefined;
  readonly help: boolean;
}

/** Throws an error that says what is allowed. */
export function parseLanguageModelOptions(args: readonly string[]): LanguageModelOptions {
  const { values } = parseArgs({
    args: [...args],
    options: {
      shape: { type: "string", default: "stories110M" },
      layers: { type: "string" },
      weights: { type: "string", default: "q4" },
      dtype: { type: "string" },
      first: { type: "string", default: "256" },
      tokens: { type: "string", default: "64" },
      rounds: { type: "string", default: "5" },
      captured: { type: "boolean", default: false },
      cpu: { type: "boolean", default: false },
      threads: { type: "string" },
      json: { type: "string" },
      help: { type: "boolean", default: false },
    },
  });
  const { cpu, captured, threads } = values;
  const shape: Shape = shapes[oneOf("shape", values.shape, shapeNames)];
  const { size, hidden } = shape;
  if (size % BLOCK !== 0 || hidden % BLOCK !== 0)
    throw new Error(
      `--shape is ${values.shape}, whose rows of ${size} and ${hidden} do not fill blocks of ${BLOCK}`,
    );
  const bits = weightBits[oneOf("weights", values.weights, weightNames)];
  const dtype = oneOf("dtype", values.dtype ?? (cpu ? "f32" : "f16"), ["f16", "f32"]);
  if (cpu && dtype !== "f32") throw new Error(`--dtype is ${dtype}; allowed with --cpu: f32`);
  if (cpu && captured) throw new Error("--captured does not go with --cpu");
  if (!cpu && threads !== undefined) throw new Error("--threads goes with --cpu only");
  const layers = values.layers === undefined ? shape.layers : wholeNumber("layers", values.layers, 1);
  return {
    ...{ shape: values.shape, model: { ...shape, layers }, bits, dtype, captured, cpu },
    first: wholeNumber("first", values.first, 1),
    tokens: wholeNumber("tokens", values.tokens, 1),
    rounds: wholeNumber("rounds", values.rounds, 1),
    threads: wholeNumber("threads", threads ?? "2", 1),
    ...{ json: values.json, help: values.help },
  };
}
