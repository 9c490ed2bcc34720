import { type Joint, joinNeighbours } from "./joining.js";
import type { Tokenizer } from "./tokenizer.js";

export interface Piece {
  /** The text of the token; a byte stands for itself. Undefined: the token stands for no text. */
  readonly text: string | number | undefined;
  readonly score: number;
}

export interface PieceOptions {
  readonly start: number;
  readonly stops: ReadonlySet<number>;
  /** Whether a space is put before the text. */
  readonly addsSpace: boolean;
}

const SPACE = 0x20;

/**
 * Pieces of text with scores (SentencePiece's BPE, as in `tokenizer.bin` of llama2.c and in Llama 1 and 2): the
 * characters of a text, or their bytes if they are no piece, are joined two by two, the pair with the best score
 * first, and among equals the leftmost one.
 */
export class PieceTokenizer implements Tokenizer {
  readonly start: number;
  readonly stops: ReadonlySet<number>;
  readonly #addsSpace: boolean;
  readonly #pieces: readonly Piece[];
  readonly #bytes: readonly Uint8Array[];
  readonly #tokens = new Map<string, number>();
  readonly #byteTokens = new Map<number, number>();

  constructor(pieces: readonly Piece[], { start, stops, addsSpace }: PieceOptions) {
    this.start = start;
    this.stops = stops;
    this.#addsSpace = addsSpace;
    this.#pieces = pieces;
    const encoder = new TextEncoder();
    this.#bytes = pieces.map(({ text = "" }) =>
      typeof text === "number" ? Uint8Array.of(text) : encoder.encode(text),
    );
    for (const [token, { text }] of pieces.entries())
      if (typeof text === "number") this.#byteTokens.set(text, token);
      else if (text !== undefined) this.#tokens.set(text, token);
  }

  get size(): number {
    return this.#pieces.length;
  }

  encode(text: string): number[] {
    if (text === "") return [this.start];
    const tokens: number[] = [];
    for (const character of this.#addsSpace ? ` ${text}` : text) {
      const token = this.#tokens.get(character);
      if (token !== undefined) tokens.push(token);
      else tokens.push(...this.#byteTokensOf(character));
    }
    const joined = joinNeighbours(tokens, (first, second) => this.#jointOf(first, second));
    return [this.start, ...joined];
  }

  bytesOf(token: number, isFirst: boolean): Uint8Array {
    const bytes = this.#bytes[token]!;
    return isFirst && this.#addsSpace && bytes[0] === SPACE ? bytes.subarray(1) : bytes;
  }

  #byteTokensOf(character: string): number[] {
    return Array.from(new TextEncoder().encode(character)).flatMap(
      (byte) => this.#byteTokens.get(byte) ?? [],
    );
  }

  /** The token of two pieces together, if there is one. */
  #jointOf(first: number, second: number): Joint<number> | undefined {
    const [a, b] = [this.#pieces[first]!.text, this.#pieces[second]!.text];
    const joined = typeof a === "string" && typeof b === "string" ? this.#tokens.get(a + b) : undefined;
    return joined === undefined ? undefined : { joined, rank: -this.#pieces[joined]!.score };
  }
}
