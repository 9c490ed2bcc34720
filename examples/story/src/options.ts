import { resolve } from "node:path";
import { type FloatType, floatTypes } from "@backplane/core";
import { numberFrom, oneOf, UsageError, valuesFrom, wholeNumber } from "./command-line.js";

export type BackendChoice = "auto" | "cpu" | "webgpu";

/** What the program does: trains a model, trains an adapter for one, or writes with one. */
export type Task = "model" | "adapter" | "text";

export interface Options {
  readonly task: Task;
  /** Paths. */
  readonly model: string | undefined;
  readonly tokenizer: string | undefined;
  readonly prompt: string;
  readonly temperature: number;
  readonly topP: number;
  readonly seed: number;
  /** The most tokens that are written. */
  readonly tokens: number;
  readonly backend: BackendChoice;
  /** Tokens after which another backend takes over; 0: none does. */
  readonly swap: number;
  readonly dtype: FloatType;
  /** Whether a backend may round what weights of 4 and 8 bits are multiplied by. */
  readonly mayRoundInputs: boolean;
  /** What is trained on; undefined: the Markdown of this repository. */
  readonly text: string | undefined;
  readonly steps: number;
  /** Where what is trained goes. */
  readonly save: string;
  /** The rank of an adapter to train for the model; 0: none is trained. */
  readonly lora: number;
  /** An adapter to write with. */
  readonly adapter: string | undefined;
  /** Where the time line of the writing goes; undefined: it is not measured. */
  readonly profile: string | undefined;
  /** A training to go on with. */
  readonly resume: string | undefined;
  readonly help: boolean;
}

export const usage = `A language model of the llama architecture: trains one, or writes with one from a file.

  npx -y pnpm@12 story [options]               trains a small one on text, then writes while the backend is swapped
  npx -y pnpm@12 story --model FILE [options]  writes on after a prompt

Training:
  --text FILE                what to learn from (default: the Markdown of this repository)
  --steps N                  steps of training (default 400)
  --save FILE                where to put the model or the adapter, also on Ctrl-C (default: the file of --resume;
                             else story.safetensors, or adapter.safetensors with --lora)
  --lora RANK                with --model: trains an adapter (LoRA) for that model, which stays as it is
  --resume FILE              goes on with a training that was interrupted; with --model that of an adapter

Writing:

  --model FILE               a checkpoint of llama2.c, a GGUF file (F32, F16, BF16, Q8_0, Q4_0, Q6_K), or one saved above
  --tokenizer FILE           the tokenizer of a checkpoint of llama2.c; a GGUF file has its own
  --adapter FILE             an adapter for the model, as --lora saves it
  --prompt TEXT              what the text starts with (default: nothing)
  --tokens N                 the most tokens to write (default 256)
  --temperature T            0 takes the likeliest token; larger numbers give more variety (default 1)
  --top-p P                  choose among the likeliest tokens that have this probability together (default 0.9)
  --seed N                   start of the random numbers, from 1 on (default: another one each time)
  --backend auto|cpu|webgpu  what computes; auto takes the GPU if there is one (default auto)
  --swap N                   go to the other backend after every N tokens (default: never)
  --dtype f32|f16            the type in which the model computes (default f32)
  --round-inputs             lets the device round what weights of 4 and 8 bits are multiplied by, to 16 bits: faster on the
                             CPU, but the text may no longer be that of the GPU
  --profile FILE             with --model: shows where the time goes, and writes a Chrome trace
  --help                     this text
`;

const backends: readonly BackendChoice[] = ["auto", "cpu", "webgpu"];
const LARGEST_RANK = 1024;

type Values = ReturnType<typeof readValues>;
type Name = keyof Values;

const common = ["prompt", "tokens", "temperature", "top-p", "seed", "backend", "help"] as const;

/** The options that each task takes, and how it is asked for. */
const tasks: Readonly<Record<Task, { readonly takes: readonly Name[]; readonly asked: string }>> = {
  model: {
    takes: [...common, "text", "steps", "save", "resume"],
    asked: "training a model (without --model)",
  },
  adapter: {
    takes: [...common, "model", "tokenizer", "text", "steps", "save", "resume", "lora"],
    asked: "training an adapter (--model with --lora or --resume)",
  },
  text: {
    takes: [...common, "model", "tokenizer", "adapter", "swap", "dtype", "round-inputs", "profile"],
    asked: "writing (--model without --lora and --resume)",
  },
};

/** Options that exclude one another, and why. */
const exclusions: readonly (readonly [Name, Name, string])[] = [
  ["steps", "resume", "the file says how many there are"],
  ["seed", "resume", "the file has it"],
  ["swap", "profile", "one backend is measured"],
];

export function parseOptions(args: readonly string[]): Options {
  const values = readValues(args);
  const options = optionsFrom(values);
  if (options.help) return options;
  const { takes, asked } = tasks[options.task];
  for (const name of Object.keys(values) as Name[])
    if (!takes.includes(name)) throw new UsageError(`--${name} does not go with ${asked}`);
  for (const [a, b, reason] of exclusions)
    if (values[a] !== undefined && values[b] !== undefined)
      throw new UsageError(`--${a} does not go with --${b}: ${reason}`);
  if (options.adapter !== undefined && options.dtype !== "f32")
    throw new UsageError("--adapter needs --dtype f32");
  checkPlaces(options);
  return options;
}

/** Throws if a file that is read would be replaced by one that is written. A training may replace what it resumes. */
function checkPlaces({ task, model, tokenizer, adapter, text, save, profile }: Options): void {
  const written = task === "text" ? { profile } : { save };
  for (const [name, path] of Object.entries(written))
    for (const [source, read] of Object.entries({ model, tokenizer, adapter, text }))
      if (path !== undefined && read !== undefined && resolve(path) === resolve(read))
        throw new UsageError(`--${name} and --${source} are the same file, ${path}, which would be replaced`);
}

function optionsFrom(values: Values): Options {
  const task = taskOf(values);
  const usualPlace = task === "adapter" ? "adapter.safetensors" : "story.safetensors";
  return {
    task,
    model: values.model,
    tokenizer: values.tokenizer,
    prompt: values.prompt ?? "",
    temperature: numberFrom("temperature", values.temperature ?? "1", 0, 100),
    topP: numberFrom("top-p", values["top-p"] ?? "0.9", 0, 1),
    seed: values.seed === undefined ? anySeed() : wholeNumber("seed", values.seed, 1, 2 ** 53 - 1),
    tokens: wholeNumber("tokens", values.tokens ?? "256", 1, 1_000_000),
    backend: oneOf("backend", values.backend ?? "auto", backends),
    swap: wholeNumber("swap", values.swap ?? "0", 0, 1_000_000),
    dtype: oneOf("dtype", values.dtype ?? "f32", floatTypes),
    mayRoundInputs: values["round-inputs"] ?? false,
    text: values.text,
    steps: wholeNumber("steps", values.steps ?? "400", 1, 1_000_000),
    save: values.save ?? values.resume ?? usualPlace,
    resume: values.resume,
    lora: values.lora === undefined ? 0 : wholeNumber("lora", values.lora, 1, LARGEST_RANK),
    adapter: values.adapter,
    profile: values.profile,
    help: values.help ?? false,
  };
}

function taskOf({ model, lora, resume }: Values): Task {
  if (model === undefined) return "model";
  return lora === undefined && resume === undefined ? "text" : "adapter";
}

function readValues(args: readonly string[]) {
  return valuesFrom(args, {
    model: { type: "string" },
    tokenizer: { type: "string" },
    prompt: { type: "string" },
    temperature: { type: "string" },
    "top-p": { type: "string" },
    seed: { type: "string" },
    tokens: { type: "string" },
    backend: { type: "string" },
    swap: { type: "string" },
    dtype: { type: "string" },
    "round-inputs": { type: "boolean" },
    text: { type: "string" },
    steps: { type: "string" },
    save: { type: "string" },
    resume: { type: "string" },
    lora: { type: "string" },
    adapter: { type: "string" },
    profile: { type: "string" },
    help: { type: "boolean", short: "h" },
  });
}

function anySeed(): number {
  return 1 + Math.floor(Math.random() * (2 ** 32 - 1));
}
