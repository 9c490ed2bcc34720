import { parseArgs } from "node:util";
import type { FloatType } from "@backplane/core";

export type BackendChoice = "auto" | "cpu" | "webgpu";

export interface Options {
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
  /** What is trained on; undefined: the Markdown of this repository. */
  readonly text: string | undefined;
  readonly steps: number;
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

/** A command line that makes no sense; the message is for the person who typed it. */
export class UsageError extends Error {}

export const usage = `A language model of the llama architecture: trains one, or writes with one from a file.

  npx -y pnpm@12 story [options]               trains a small one on text, then writes while the backend is swapped
  npx -y pnpm@12 story --model FILE [options]  writes on after a prompt

Training:
  --text FILE                what to learn from (default: the Markdown of this repository)
  --steps N                  steps of training (default 400)
  --save FILE                where to put the model, also on Ctrl-C (default story.safetensors)
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
  --profile FILE             with --model: shows where the time goes, and writes a Chrome trace
  --help                     this text
`;

const backends: readonly BackendChoice[] = ["auto", "cpu", "webgpu"];
const dtypes: readonly FloatType[] = ["f32", "f16"];

export function parseOptions(args: readonly string[]): Options {
  const values = readValues(args);
  const options = optionsFrom(values);
  const { profile, model, swap, lora, resume } = options;
  if (profile !== undefined && (model === undefined || swap > 0 || lora > 0 || resume !== undefined))
    throw new UsageError("--profile needs --model, and goes with neither --swap nor --lora nor --resume");
  return options;
}

function optionsFrom(values: ReturnType<typeof readValues>): Options {
  return {
    model: values.model,
    tokenizer: values.tokenizer,
    prompt: values.prompt,
    temperature: numberFrom("temperature", values.temperature, 0, 100),
    topP: numberFrom("top-p", values["top-p"], 0, 1),
    seed: values.seed === undefined ? anySeed() : wholeNumber("seed", values.seed, 1, 2 ** 53 - 1),
    tokens: wholeNumber("tokens", values.tokens, 1, 1_000_000),
    backend: oneOf("backend", values.backend, backends),
    swap: wholeNumber("swap", values.swap, 0, 1_000_000),
    dtype: oneOf("dtype", values.dtype, dtypes),
    text: values.text,
    steps: wholeNumber("steps", values.steps, 1, 1_000_000),
    save: values.save,
    resume: values.resume,
    lora: wholeNumber("lora", values.lora, 0, 1024),
    adapter: values.adapter,
    profile: values.profile,
    help: values.help,
  };
}

function readValues(args: readonly string[]) {
  try {
    return parseArgs({
      // "pnpm story -- --help" hands on the separator too.
      args: args[0] === "--" ? args.slice(1) : [...args],
      options: {
        model: { type: "string" },
        tokenizer: { type: "string" },
        prompt: { type: "string", default: "" },
        temperature: { type: "string", default: "1" },
        "top-p": { type: "string", default: "0.9" },
        seed: { type: "string" },
        tokens: { type: "string", default: "256" },
        backend: { type: "string", default: "auto" },
        swap: { type: "string", default: "0" },
        dtype: { type: "string", default: "f32" },
        text: { type: "string" },
        steps: { type: "string", default: "400" },
        save: { type: "string", default: "story.safetensors" },
        resume: { type: "string" },
        lora: { type: "string", default: "0" },
        adapter: { type: "string" },
        profile: { type: "string" },
        help: { type: "boolean", short: "h", default: false },
      },
    }).values;
  } catch (error) {
    // The first sentence says what is wrong; the rest is advice on options that take file names.
    throw new UsageError((error as Error).message.split(". ")[0]!);
  }
}

function anySeed(): number {
  return 1 + Math.floor(Math.random() * (2 ** 32 - 1));
}

function oneOf<Value extends string>(name: string, value: string, allowed: readonly Value[]): Value {
  if (!allowed.includes(value as Value))
    throw new UsageError(`--${name} is "${value}"; allowed: ${allowed.join(", ")}`);
  return value as Value;
}

function wholeNumber(name: string, text: string, least: number, most: number): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || value < least || value > most)
    throw new UsageError(`--${name} is "${text}"; allowed: whole numbers from ${least} to ${most}`);
  return value;
}

function numberFrom(name: string, text: string, least: number, most: number): number {
  const value = Number(text);
  if (!/^\d*\.?\d+$/.test(text) || value < least || value > most)
    throw new UsageError(`--${name} is "${text}"; allowed: numbers from ${least} to ${most}`);
  return value;
}
