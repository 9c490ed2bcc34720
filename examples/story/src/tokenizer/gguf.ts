import { FileError } from "../checkpoint/file.js";
import type { MetadataValue } from "../checkpoint/gguf-header.js";
import { PieceTokenizer } from "./pieces.js";
import type { Tokenizer } from "./tokenizer.js";

/** Values of `tokenizer.ggml.token_type`. */
const NORMAL = 1;
const USER_DEFINED = 4;
const BYTE = 6;

/** The character that stands for a space in pieces. */
const MARK = "▁";

/** Makes the tokenizer that a GGUF file describes. */
export function tokenizerOf(metadata: ReadonlyMap<string, MetadataValue>): Tokenizer | undefined {
  const model = metadata.get("tokenizer.ggml.model");
  if (model === undefined) return undefined;
  if (model !== "llama")
    throw new FileError(`Its tokenizer is of the kind ${String(model)}; this program knows llama.`);
  const texts = listOf<string>(metadata, "tokens");
  const scores = listOf<number>(metadata, "scores");
  const types = listOf<number>(metadata, "token_type");
  if (texts === undefined) throw new FileError("Its header has no tokens.");
  const number = (key: string, otherwise: number) =>
    Number(metadata.get(`tokenizer.ggml.${key}`) ?? otherwise);
  const pieces = texts.map((text, token) => {
    const type = types?.[token] ?? NORMAL;
    return { text: meaningOf(text, type), score: scores?.[token] ?? 0 };
  });
  const start = number("bos_token_id", 1);
  const stops = new Set([start, number("eos_token_id", 2), number("eot_token_id", start)]);
  const addsSpace = metadata.get("tokenizer.ggml.add_space_prefix") !== false;
  return new PieceTokenizer(pieces, { start, stops, addsSpace });
}

function listOf<Value>(
  metadata: ReadonlyMap<string, MetadataValue>,
  key: string,
): readonly Value[] | undefined {
  const value = metadata.get(`tokenizer.ggml.${key}`);
  return Array.isArray(value) ? value : undefined;
}

function meaningOf(text: string, type: number): string | number | undefined {
  if (type === BYTE) return Number.parseInt(text.slice(3, 5), 16);
  return type === NORMAL || type === USER_DEFINED ? text.replaceAll(MARK, " ") : undefined;
}
