import { FileError } from "../checkpoint/file.js";
import type { MetadataValue } from "../checkpoint/gguf-header.js";
import { BytePairTokenizer, type Cut, cuts } from "./byte-pairs.js";
import { PieceTokenizer } from "./pieces.js";
import type { Tokenizer } from "./tokenizer.js";

/** What the keys of tokenizers begin with. */
const KEY = "tokenizer.ggml.";

/** Values of `tokenizer.ggml.token_type`. */
const NORMAL = 1;
const USER_DEFINED = 4;
const BYTE = 6;

/** The character that stands for a space in pieces. */
const MARK = "▁";

/** Other names of the ways to cut a text. */
const otherNames = new Map<string, Cut>([
  ["llama3", "llama-bpe"],
  ["llama-v3", "llama-bpe"],
  ["gpt2", "gpt-2"],
  ["default", "gpt-2"],
]);

/** Makes the tokenizer that a GGUF file describes. */
export function tokenizerOf(metadata: ReadonlyMap<string, MetadataValue>): Tokenizer | undefined {
  const model = metadata.get("tokenizer.ggml.model");
  if (model === undefined) return undefined;
  const kind = String(model);
  if (!Object.hasOwn(makers, kind))
    throw new FileError(
      `Its tokenizer is of the kind ${kind}; this program knows ${Object.keys(makers).join(", ")}.`,
    );
  const make = makers[kind]!;
  const texts = textsOf(metadata, "tokens");
  if (texts === undefined) throw new FileError("Its header has no tokens.");
  const types = numbersOf(metadata, "token_type");
  const number = (key: string, otherwise: number) => {
    const value = metadata.get(KEY + key) ?? otherwise;
    const isNumber = typeof value === "number" || typeof value === "bigint";
    if (isNumber && Number.isInteger(Number(value)) && value >= 0 && value < texts.length)
      return Number(value);
    throw new FileError(
      `${KEY}${key} is ${typeof value} ${String(value)}; allowed: numbers from 0 to ${texts.length - 1}.`,
    );
  };
  const start = number("bos_token_id", 1);
  const stops = new Set([start, number("eos_token_id", 2), number("eot_token_id", start)]);
  return make(metadata, { texts, typeOf: (token) => types?.[token] ?? NORMAL, start, stops });
}

interface Described {
  readonly texts: readonly string[];
  readonly typeOf: (token: number) => number;
  readonly start: number;
  readonly stops: ReadonlySet<number>;
}

/** By `tokenizer.ggml.model`. */
const makers: Readonly<
  Record<string, (metadata: ReadonlyMap<string, MetadataValue>, described: Described) => Tokenizer>
> = {
  llama(metadata, { texts, typeOf, start, stops }) {
    const scores = numbersOf(metadata, "scores");
    const pieces = texts.map((text, token) => ({
      text: meaningOf(text, typeOf(token)),
      score: scores?.[token] ?? 0,
    }));
    const addsSpace = metadata.get("tokenizer.ggml.add_space_prefix") !== false;
    return new PieceTokenizer(pieces, { start, stops, addsSpace });
  },

  gpt2(metadata, { texts, typeOf, start, stops }) {
    const name = String(metadata.get("tokenizer.ggml.pre") ?? "default");
    const cut = otherNames.get(name) ?? name;
    if (!isCut(cut))
      throw new FileError(
        `Its tokenizer cuts texts as ${name} does; this program knows ${Object.keys(cuts).join(", ")}.`,
      );
    const merges = textsOf(metadata, "merges") ?? [];
    const meanings = texts.map((text, token) => (typeOf(token) === NORMAL ? text : undefined));
    return new BytePairTokenizer({ texts: meanings, merges, cut, start, stops });
  },
};

function isCut(name: string): name is Cut {
  return Object.hasOwn(cuts, name);
}

function textsOf(metadata: ReadonlyMap<string, MetadataValue>, key: string): readonly string[] | undefined {
  return listOf(metadata, key, "texts", (value) => typeof value === "string");
}

function numbersOf(metadata: ReadonlyMap<string, MetadataValue>, key: string): readonly number[] | undefined {
  return listOf(metadata, key, "numbers", (value) => typeof value === "number");
}

function listOf<Value extends MetadataValue>(
  metadata: ReadonlyMap<string, MetadataValue>,
  key: string,
  what: string,
  isOne: (value: MetadataValue) => value is Value,
): readonly Value[] | undefined {
  const list = metadata.get(KEY + key);
  if (list === undefined) return undefined;
  if (!Array.isArray(list) || !list.every(isOne)) throw new FileError(`${KEY}${key} is no list of ${what}.`);
  return list;
}

function meaningOf(text: string, type: number): string | number | undefined {
  if (type === BYTE) {
    if (!/^<0x[0-9a-f]{2}>$/i.test(text))
      throw new FileError(`The token ${text} should be a byte like <0x0A>.`);
    return Number.parseInt(text.slice(3, 5), 16);
  }
  return type === NORMAL || type === USER_DEFINED ? text.replaceAll(MARK, " ") : undefined;
}
