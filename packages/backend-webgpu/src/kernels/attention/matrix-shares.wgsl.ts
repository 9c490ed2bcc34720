import { lines } from "../../program/index.js";
import { SIDE } from "../tiles/index.js";
import { maskFour, maskReads } from "./matrix-mask.wgsl.js";
import {
  type AttentionMatrixForm,
  type AttentionMatrixTile,
  attentionLayout,
  ofMember,
  ROW_SHARE,
} from "./matrix-tile.js";

/** Texts about the scores of an invocation. */
export interface MatrixShares {
  row(i: number): string;
  /** A line for each of its rows, or runs, or fours. */
  rows(line: (i: number) => string): string;
  runs(line: (j: number) => string): string;
  fours(line: (i: number, j: number, q: number) => string): string;
  /** The q-th four scores of a run. */
  score(i: number, j: number, q: number): string;
  weight(i: number, j: number, h: number): string;
  isSeen(i: number, j: number, q: number, keyBase: string): string;
  isSince(i: number, j: number, q: number, keyBase: string): string;
  maskReads(keyBase: string): string;
  masked(i: number, j: number, q: number, score: string): string;
  hides(i: number, j: number, q: number): string;
  any(text: (i: number) => string): string;
  highest(i: number): string;
}

/** The scores of an invocation: rows, and runs of 16 keys in them. */
export function shares(tile: AttentionMatrixTile, form: AttentionMatrixForm): MatrixShares {
  const { pitches, blocks } = attentionLayout(tile, form.columns);
  const count = tile.keys / SIDE / ROW_SHARE;
  const row = (i: number) => `(${ofMember(tile, blocks.weights * SIDE)}place / ${ROW_SHARE}u + ${i * SIDE}u)`;
  const run = (j: number) => `(place % ${ROW_SHARE}u + ${j * ROW_SHARE}u)`;
  const keysOf = (j: number, q: number, keyBase: string) =>
    `${keyBase} + ${run(j)} * ${SIDE}u + vec4u(${[0, 1, 2, 3].map((c) => `${4 * q + c}u`).join(", ")})`;
  const maskWords = (i: number, j: number, q: number) => {
    const mask = form.hiding!.mask!;
    const names = Array.from({ length: maskReads(mask) }, (_, n) => `mask_${i}_${j}_${n}`);
    return maskFour(mask, names, q);
  };
  return {
    row,
    rows: (line: (i: number) => string) => lines(blocks.weights, line),
    runs: (line: (j: number) => string) => lines(count, line),
    /** By fours: the q-th of a run. */
    fours: (line: (i: number, j: number, q: number) => string) =>
      lines(blocks.weights, (i) => lines(count, (j) => lines(4, (q) => line(i, j, q)))),
    score: (i: number, j: number, q: number) =>
      `scores[team][${row(i)} * ${pitches.scores}u + ${run(j)} * 4u + ${q}u]`,
    /** Eight weights, h = 0 and 1 for a run, in the place of its scores or in that of the weights. */
    weight: (i: number, j: number, h: number) =>
      tile.own === "all"
        ? `weights[team][${row(i)} * ${pitches.weights}u + ${run(j)} * 2u + ${h}u]`
        : `scores[team][${row(i)} * ${pitches.scores}u + ${run(j)} * 4u + ${h}u]`,
    isSeen: (i: number, j: number, q: number, keyBase: string) =>
      `${keysOf(j, q, keyBase)} < vec4u(seen_${i})`,
    isSince: (i: number, j: number, q: number, keyBase: string) =>
      `${keysOf(j, q, keyBase)} >= vec4u(since_${i})`,
    /** Reads the mask of the keys from one on. */
    maskReads: (keyBase: string) => {
      const mask = form.hiding?.mask;
      if (mask === undefined) return "";
      return lines(blocks.weights, (i) =>
        lines(count, (j) =>
          lines(
            maskReads(mask),
            (n) =>
              `    let mask_${i}_${j}_${n} = mask_unit(mask_${i}, ${keyBase} + ${run(j)} * ${SIDE}u, ${n}u, keyLast);`,
          ),
        ),
      );
    },
    masked: (i: number, j: number, q: number, score: string) => `masked(${score}, ${maskWords(i, j, q)})`,
    hides: (i: number, j: number, q: number) => `hides(${maskWords(i, j, q)})`,
    any: (text: (i: number) => string) =>
      Array.from({ length: blocks.weights }, (_, i) => text(i)).join(" || "),
    highest: (i: number) =>
      Array.from({ length: 4 * count }, (_, n) => `score_${i}_${n >> 2}_${n & 3}`).reduce(
        (a, b) => `max(${a}, ${b})`,
      ),
  };
}
