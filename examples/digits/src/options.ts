import { parseArgs } from "node:util";
import { type ModelName, recipes } from "./models.js";

export type Mode = "cpu" | "webgpu" | "swap";

export interface Options {
  readonly backend: Mode;
  readonly model: ModelName;
  readonly seed: number;
  /** Passes over the training images; a fraction stops in mid-pass. */
  readonly epochs: number;
  /** Images per step. */
  readonly batch: number;
  /** Of the CPU backend; undefined leaves the choice to it. */
  readonly threads: number | undefined;
  /** Ends training after so many steps of all; undefined: after the last one. */
  readonly stop: number | undefined;
  /** The file that the end of training is saved to. */
  readonly save: string | undefined;
  /** The file with which training goes on. */
  readonly resume: string | undefined;
  /** The file for a drawing of the loss. */
  readonly svg: string | undefined;
  readonly json: boolean;
  readonly help: boolean;
}

/** A command line that makes no sense; the message is for the person who typed it. */
export class UsageError extends Error {}

export const usage = `Trains a network on handwritten digits while its compute backend is swapped.

  --backend cpu|webgpu|swap  what computes; swap goes from the CPU to WebGPU and back (default swap)
  --model mlp|cnn            a network of linear layers, or one with convolutions (default mlp)
  --seed N                   start of all random numbers (default 1)
  --epochs N                 passes over the 60,000 training images; 0.5 is half a pass (default 3; cnn: 5)
  --batch N                  images per step (default 100)
  --threads N                worker threads of the CPU backend; 0 computes inline (default: its choice)
  --save FILE                saves parameters and optimizer at the end of training (safetensors)
  --stop N                   ends training after N steps of all, as if it had been interrupted there
  --resume FILE              goes on where such a file was saved, to the same bits on the same backend
  --svg FILE                 draws the loss of all readings as SVG
  --json                     result as JSON on standard output, progress on standard error
  --help                     this text
`;

const modes: readonly Mode[] = ["cpu", "webgpu", "swap"];

export function parseOptions(args: readonly string[]): Options {
  const values = readValues(args);
  if (!modes.includes(values.backend as Mode))
    throw new UsageError(`--backend is "${values.backend}"; allowed: ${modes.join(", ")}`);
  if (!Object.hasOwn(recipes, values.model))
    throw new UsageError(`--model is "${values.model}"; allowed: ${Object.keys(recipes).join(", ")}`);
  const model = values.model as ModelName;
  return {
    backend: values.backend as Mode,
    model,
    seed: wholeNumber("seed", values.seed, 0, 2 ** 32 - 1),
    epochs: values.epochs === undefined ? recipes[model].epochs : epochs(values.epochs),
    batch: wholeNumber("batch", values.batch, 1, 10_000),
    threads: values.threads === undefined ? undefined : wholeNumber("threads", values.threads, 0, 64),
    stop: values.stop === undefined ? undefined : wholeNumber("stop", values.stop, 1, 1e9),
    save: values.save,
    resume: values.resume,
    svg: values.svg,
    json: values.json,
    help: values.help,
  };
}

function readValues(args: readonly string[]) {
  try {
    return parseArgs({
      // "pnpm start -- --json" hands on the separator too.
      args: args[0] === "--" ? args.slice(1) : [...args],
      options: {
        backend: { type: "string", default: "swap" },
        seed: { type: "string", default: "1" },
        model: { type: "string", default: "mlp" },
        epochs: { type: "string" },
        batch: { type: "string", default: "100" },
        threads: { type: "string" },
        stop: { type: "string" },
        save: { type: "string" },
        resume: { type: "string" },
        svg: { type: "string" },
        json: { type: "boolean", default: false },
        help: { type: "boolean", short: "h", default: false },
      },
    }).values;
  } catch (error) {
    // The first sentence says what is wrong; the rest is advice on options that take file names.
    throw new UsageError((error as Error).message.split(". ")[0]!);
  }
}

function wholeNumber(name: string, text: string, least: number, most: number): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || value < least || value > most)
    throw new UsageError(`--${name} is "${text}"; allowed: whole numbers from ${least} to ${most}`);
  return value;
}

function epochs(text: string): number {
  const value = Number(text);
  if (!/^\d*\.?\d+$/.test(text) || value <= 0 || value > 1000)
    throw new UsageError(`--epochs is "${text}"; allowed: numbers above 0, at most 1000`);
  return value;
}
