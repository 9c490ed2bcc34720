import type { WebGpuTier } from "@backplane/backend-webgpu";
import { type FloatType, floatTypes, type QuantizedBits } from "@backplane/core";
import { oneOf, UsageError, valuesFrom, wholeNumber } from "./command-line.js";
import { BLOCK } from "./matrix.js";
import type { BackendChoice } from "./options.js";
import type { Shape } from "./shape.js";
import { shapes } from "./well-known.js";

/** How weights are stored. Undefined: in the type in which the model computes. */
const weightBits = { dense: undefined, q8: 8, q4: 4 } as const satisfies Record<
  string,
  QuantizedBits | undefined
>;

const tiers: readonly WebGpuTier[] = ["baseline", "subgroups", "shader-f16", "subgroup-matrices"];

const backends: readonly Exclude<BackendChoice, "auto">[] = ["webgpu", "cpu"];

export interface SpeedOptions {
  /** The name of the shape, and of the kind of weights. */
  readonly shapeName: string;
  readonly weightsName: string;
  readonly shape: Shape;
  readonly bits: QuantizedBits | undefined;
  readonly dtype: FloatType;
  /** Whether a backend may round what quantized weights are multiplied by. */
  readonly mayRoundInputs: boolean;
  readonly backend: string;
  /** The highest tier of WebGPU that is used; undefined: the backend's default. */
  readonly tier: WebGpuTier | undefined;
  /** Tokens. */
  readonly prompt: number;
  readonly tokens: number;
  readonly rounds: number;
  /** Where the results go as JSON. */
  readonly json: string | undefined;
  /** Whether one more round shows where the time goes. */
  readonly profile: boolean;
  readonly help: boolean;
}

export const speedUsage = `How fast a model of some shape writes, with random weights.

  node examples/story/dist/speed.js [options]

  --shape NAME            ${Object.keys(shapes).join(", ")} (default stories260K)
  --weights dense|q8|q4   how they are stored: in the type of --dtype, or in 8 or 4 bits (default dense)
  --dtype f32|f16         the type in which the model computes (default f32)
  --round-inputs          lets the device round what weights of 8 or 4 bits are multiplied by, to 16 bits (faster on the CPU)
  --backend webgpu|cpu    what computes (default webgpu)
  --tier NAME             the highest tier of WebGPU that is used: ${tiers.join(", ")}
  --prompt N              tokens that the model reads first (default 256)
  --tokens N              tokens that it then writes, at least 2 (default 64)
  --rounds N              how often (default 3)
  --profile               one more round, in which each kernel is timed
  --json FILE             also writes what was measured
  --help                  this text
`;

/** Throws a `UsageError`. */
export function parseSpeedOptions(args: readonly string[]): SpeedOptions {
  const values = valuesFrom(args, {
    shape: { type: "string", default: "stories260K" },
    weights: { type: "string", default: "dense" },
    dtype: { type: "string", default: "f32" },
    "round-inputs": { type: "boolean", default: false },
    backend: { type: "string", default: "webgpu" },
    prompt: { type: "string", default: "256" },
    tokens: { type: "string", default: "64" },
    rounds: { type: "string", default: "3" },
    tier: { type: "string" },
    profile: { type: "boolean", default: false },
    json: { type: "string" },
    help: { type: "boolean", short: "h", default: false },
  });
  const shapeName = oneOf("shape", values.shape, Object.keys(shapes) as (keyof typeof shapes)[]);
  const weightsName = oneOf(
    "weights",
    values.weights,
    Object.keys(weightBits) as (keyof typeof weightBits)[],
  );
  const [shape, bits] = [shapes[shapeName], weightBits[weightsName]];
  const { size, hidden } = shape;
  if (bits !== undefined && (size % BLOCK !== 0 || hidden % BLOCK !== 0))
    throw new UsageError(
      `--weights is "${weightsName}", in blocks of ${BLOCK}, which rows of ${size} and ${hidden} do not fill; ` +
        `allowed for ${shapeName}: dense`,
    );
  if (values["round-inputs"] && bits === undefined)
    throw new UsageError(`--round-inputs does not go with --weights ${weightsName}`);
  return {
    shapeName,
    weightsName,
    shape,
    bits,
    dtype: oneOf("dtype", values.dtype, floatTypes),
    mayRoundInputs: values["round-inputs"],
    backend: oneOf("backend", values.backend, backends),
    prompt: wholeNumber("prompt", values.prompt, 1, 1_000_000),
    tokens: wholeNumber("tokens", values.tokens, 2, 1_000_000),
    rounds: wholeNumber("rounds", values.rounds, 1, 1_000_000),
    tier: tierOf(values),
    profile: values.profile,
    json: values.json,
    help: values.help,
  };
}

function tierOf({ backend, tier }: { backend: string; tier?: string | undefined }): WebGpuTier | undefined {
  if (tier === undefined) return undefined;
  if (backend !== "webgpu") throw new UsageError(`--tier does not go with --backend ${backend}`);
  return oneOf("tier", tier, tiers);
}
