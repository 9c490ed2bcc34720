import { parseArgs } from "node:util";
import { type ModelName, modelNames } from "./task.js";

export const usage: string = `node bench/dist/training/main.js [options]

  --threads N   threads of the CPU backend and of jax-js; 0 computes on the calling one (default 2)
  --model NAME  only this one: ${modelNames.join(" or ")}
  --peers       also times jax-js (WebAssembly), TensorFlow.js (its backend cpu; its backend wasm does not train), and
                TensorFlow.js on @backplane/tfjs; installs jax-js into bench/peers where it is missing
  --gpu         times ours on WebGPU only, and with --peers TensorFlow.js on tfjs-backend-webgpu and on @backplane/tfjs, and
                jax-js on WebGPU
  --anchor COMMAND  one more to time, such as "python3 bench/anchors/torch_training.py"; may be repeated
  --rounds N    rounds (default 7)
  --json FILE   also writes what was measured
  --help        this text

Exit code: 0, 1 where losses are apart or do not fall, 2 on bad usage.
`;

export interface TrainingOptions {
  /** Of the CPU backend and of jax-js. */
  readonly threads: number;
  readonly names: readonly ModelName[];
  readonly rounds: number;
  /** Whether others are timed, too. */
  readonly peers: boolean;
  /** Whether all train on WebGPU. */
  readonly gpu: boolean;
  /** Commands that start others. */
  readonly anchors: readonly string[];
  /** Where the results go as JSON. */
  readonly json: string | undefined;
  readonly help: boolean;
}

/** Returns the options. Throws with what is allowed if there is anything else. */
export function parseTrainingOptions(args: readonly string[]): TrainingOptions {
  const { values } = parseArgs({
    args: [...args],
    options: {
      threads: { type: "string", default: "2" },
      model: { type: "string" },
      peers: { type: "boolean", default: false },
      gpu: { type: "boolean", default: false },
      anchor: { type: "string", multiple: true, default: [] },
      json: { type: "string" },
      rounds: { type: "string", default: "7" },
      help: { type: "boolean", default: false },
    },
  });
  const names = modelNames.filter((name) => values.model === undefined || values.model === name);
  if (names.length === 0) throw new Error(`--model is ${values.model}; allowed: ${modelNames.join(", ")}`);
  const whole = (name: "threads" | "rounds", least: number): number => {
    const value = Number(values[name]);
    if (!Number.isSafeInteger(value) || value < least)
      throw new Error(`--${name} is ${values[name]}; allowed: whole numbers from ${least} on`);
    return value;
  };
  const { peers, gpu, json, help, anchor: anchors } = values;
  return { names, threads: whole("threads", 0), rounds: whole("rounds", 1), peers, gpu, anchors, json, help };
}
