import { parseArgs } from "node:util";

export type Mode = "cpu" | "webgpu" | "swap";

export interface Options {
  readonly backend: Mode;
  /** Steps of training on the CPU. */
  readonly steps: number;
  /** Steps on WebGPU: of "swap" in the middle of those on the CPU. */
  readonly webgpuSteps: number;
  readonly help: boolean;
}

/** A command line that makes no sense; the message is for the person who typed it. */
export class UsageError extends Error {}

export const usage = `Trains a model of tfjs-layers on handwritten digits while its compute backend is swapped.

  --backend cpu|webgpu|swap  what computes; swap goes from the CPU to WebGPU and back (default swap)
  --steps N                  steps of 100 images on the CPU (default 400)
  --webgpu-steps N           steps on WebGPU (default 5, for adapters in software are slow)
  --help                     this text
`;

const modes: readonly Mode[] = ["cpu", "webgpu", "swap"];

export function parseOptions(args: readonly string[]): Options {
  const values = readValues(args);
  if (!modes.includes(values.backend as Mode))
    throw new UsageError(`--backend is "${values.backend}"; allowed: ${modes.join(", ")}`);
  return {
    backend: values.backend as Mode,
    steps: wholeNumber("steps", values.steps),
    webgpuSteps: wholeNumber("webgpu-steps", values["webgpu-steps"]),
    help: values.help,
  };
}

function readValues(args: readonly string[]) {
  try {
    return parseArgs({
      // "pnpm tfjs -- --help" hands on the separator too.
      args: args[0] === "--" ? args.slice(1) : [...args],
      options: {
        backend: { type: "string", default: "swap" },
        steps: { type: "string", default: "400" },
        "webgpu-steps": { type: "string", default: "5" },
        help: { type: "boolean", default: false },
      },
    }).values;
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

function wholeNumber(name: string, text: string): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || value < 1 || value > 100_000)
    throw new UsageError(`--${name} is "${text}"; allowed: whole numbers from 1 to 100000`);
  return value;
}
