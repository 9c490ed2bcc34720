import { type Joint, joinNeighbours } from "./joining.js";
import type { Tokenizer } from "./tokenizer.js";

/** How a text is cut before its parts are joined, by the names that GGUF files have for it. */
export type Cut = keyof typeof cuts;

/** Of GPT-2: words and numbers with the space before them, other characters, spaces. */
const gpt2 = /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+/gu;

/** Of Llama 3: numbers have at most three digits, ends of lines stay with what is before them. */
const llama3 =
  /'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+/gu;

export const cuts = { "gpt-2": gpt2, "llama-bpe": llama3 } as const;

export interface BytePairs {
  /** The text of each token, its bytes written as `byteCharacters`; undefined: the token stands for no text. */
  readonly texts: readonly (string | undefined)[];
  /** Pairs that are joined, those that come first before the others: "a b". */
  readonly merges: readonly string[];
  readonly cut: Cut;
  readonly start: number;
  readonly stops: ReadonlySet<number>;
}

/**
 * The characters that stand for bytes in the vocabularies of GPT-2 and its successors: printable ones of Latin-1 stand for
 * themselves, and characters from 256 on for the other bytes, in order.
 */
export const byteCharacters: readonly string[] = (() => {
  let next = 256;
  const isPrintable = (byte: number) =>
    (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 255 && byte !== 173);
  return Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(isPrintable(byte) ? byte : next++));
})();

const bytesOfCharacters: ReadonlyMap<string, number> = new Map(
  byteCharacters.map((character, byte) => [character, byte]),
);

/**
 * Byte pairs (R. Sennrich et al., "Neural machine translation of rare words with subword units", 2016; on bytes, as in GPT-2 and
 * Llama 3): a text is cut into words, and in each one bytes are joined two by two, in the order of the merges. A word that is a
 * token of its own is that.
 */
export class BytePairTokenizer implements Tokenizer {
  readonly start: number;
  readonly stops: ReadonlySet<number>;
  readonly #texts: BytePairs["texts"];
  readonly #cut: RegExp;
  readonly #tokens = new Map<string, number>();
  readonly #ranks: ReadonlyMap<string, number>;

  constructor({ texts, merges, cut, start, stops }: BytePairs) {
    this.start = start;
    this.stops = stops;
    this.#texts = texts;
    this.#cut = cuts[cut];
    for (const [token, text] of texts.entries()) if (text !== undefined) this.#tokens.set(text, token);
    this.#ranks = new Map(merges.map((pair, rank) => [pair, rank]));
  }

  get size(): number {
    return this.#texts.length;
  }

  encode(text: string): number[] {
    const tokens = [this.start];
    const jointOf = (first: string, second: string) => this.#jointOf(first, second);
    for (const [word] of text.matchAll(this.#cut)) {
      const characters = Array.from(new TextEncoder().encode(word), (byte) => byteCharacters[byte]!);
      const whole = this.#tokens.get(characters.join(""));
      if (whole !== undefined) tokens.push(whole);
      else for (const part of joinNeighbours(characters, jointOf)) tokens.push(...this.#tokensOf(part));
    }
    return tokens;
  }

  bytesOf(token: number): Uint8Array {
    const characters = this.#texts[token] ?? "";
    return Uint8Array.from(characters, (character) => bytesOfCharacters.get(character) ?? 0);
  }

  #jointOf(first: string, second: string): Joint<string> | undefined {
    const rank = this.#ranks.get(`${first} ${second}`);
    return rank === undefined ? undefined : { joined: first + second, rank };
  }

  /** A part that merges have made may be missing among the tokens; then its bytes are not. */
  #tokensOf(part: string): number[] {
    const token = this.#tokens.get(part);
    if (token !== undefined) return [token];
    return Array.from(part).flatMap((character) => this.#tokens.get(character) ?? []);
  }
}
