import { parseArgs } from "node:util";

export type Mode = "all" | "cpu" | "webgpu" | "swap";

export interface Options {
  /** Paths. */
  readonly model: string;
  readonly pictures: string;
  readonly backend: Mode;
  readonly help: boolean;
}

/** A command line that makes no sense; the message is for the person who typed it. */
export class UsageError extends Error {}

export const usage = `Classifies pictures of digits with a trained convolutional network.

  npx -y pnpm@12 cnn MODEL PICTURES [options]

  MODEL                          weights in a file of the format safetensors
  PICTURES                       JSON: { "7": { "pixels": [784 numbers from 0 to 255], "logits": [10 numbers] }, ... };
                                 logits are optional, and compared if they are there
  --backend all|cpu|webgpu|swap  what computes; swap changes from the CPU to WebGPU in the middle (default all)
  --help                         this text
`;

const modes: readonly Mode[] = ["all", "cpu", "webgpu", "swap"];

export function parseOptions(args: readonly string[]): Options {
  const { values, positionals } = read(args);
  const backend = values.backend as Mode;
  if (!modes.includes(backend))
    throw new UsageError(`--backend is "${backend}"; allowed: ${modes.join(", ")}`);
  const [model = "", pictures = ""] = positionals;
  if (!values.help && positionals.length !== 2)
    throw new UsageError(`${positionals.length} files are named; needed: MODEL and PICTURES`);
  return { model, pictures, backend, help: values.help };
}

function read(args: readonly string[]) {
  try {
    return parseArgs({
      // "pnpm cnn -- --help" hands on the separator too.
      args: args[0] === "--" ? args.slice(1) : [...args],
      allowPositionals: true,
      options: {
        backend: { type: "string", default: "all" },
        help: { type: "boolean", short: "h", default: false },
      },
    });
  } catch (error) {
    // The first sentence says what is wrong; the rest is advice on options that take file names.
    throw new UsageError((error as Error).message.split(". ")[0]!);
  }
}
