import { lines } from "../../../program/index.js";
import { SIDE, UNIT } from "../../tiles/index.js";
import { shares } from "../matrix-shares.wgsl.js";
import { matrixStaging, operandType } from "../matrix-stage.wgsl.js";
import { type AttentionMatrixForm, ofMember } from "../matrix-tile.js";
import { type AttentionSplitTile, splitLayout } from "./split-tile.js";

/** Constants of the kernel: what low parts are enlarged by, and the inverse. */
export const UP = "LOW_UP";
export const DOWN = "LOW_DOWN";

/** Keys and values are staged as rows of both parts. */
export const stagedForm = (columns: number): AttentionMatrixForm => ({
  ...{ columns: 2 * columns, whole: true, weights: "fine", results: "halves", apart: true },
});

/**
 * Products with the keys in their panel, to the subgroup's scores: first those with low parts, then the others. High parts are
 * read again for these; kept in registers, they made heads of 64 elements 2% slower on an NVIDIA H100.
 */
function scoresText(tile: AttentionSplitTile, columns: number): string {
  const { pitches, blocks } = splitLayout(tile, columns);
  const each = (line: (i: number, j: number) => string) =>
    lines(blocks.rows, (i) => lines(blocks.scores, (j) => line(i, j)));
  const load = (name: string, part: "high" | "low", d: number, j: number) =>
    `    let ${name}_${d}_${j} = subgroupMatrixLoad<${operandType("left")}, row_major>(&key_panel, ${ofMember(tile, (tile.keys / tile.across) * pitches.keys)}${j * SIDE * pitches.keys + 2 * d + (part === "low" ? columns / UNIT : 0)}u, ${pitches.keys}u);`;
  const add = (left: string, right: "query_high" | "query_low", d: number, j: number) =>
    lines(
      blocks.rows,
      (i) =>
        `    score_${i}_${j} = subgroupMatrixMultiplyAccumulate(${left}_${d}_${j}, ${right}_${i}_${d}, score_${i}_${j});`,
    );
  const steps = (line: (d: number, j: number) => string) =>
    lines(columns / SIDE, (d) => lines(blocks.scores, (j) => line(d, j)));
  return `    {
${each((i, j) => `    var score_${i}_${j} = zero;`)}
${steps(
  (d, j) => `${load("key", "high", d, j)}
${load("rest", "low", d, j)}
${add("key", "query_low", d, j)}
${add("rest", "query_high", d, j)}`,
)}
${each((i, j) => `    score_${i}_${j} = subgroupMatrixScalarMultiply(score_${i}_${j}, ${DOWN});`)}
${steps((d, j) => `${load("again", "high", d, j)}\n${add("again", "query_high", d, j)}`)}
${tile.own === "values" ? "    workgroupBarrier(); // weights have been read" : ""}
${each((i, j) => `    subgroupMatrixStore<col_major>(&scores[team], ${ofMember(tile, tile.keys / tile.across / 4)}${i * SIDE * pitches.scores + 4 * j}u, score_${i}_${j}, ${pitches.scores}u);`)}
    }
    workgroupBarrier();`;
}

/** The largest score of the first step, for each row. */
export function firstText(tile: AttentionSplitTile, columns: number): string {
  const share = shares(tile, stagedForm(columns));
  const stage = matrixStaging(tile, stagedForm(columns));
  const raw = (i: number, j: number, q: number) => `bitcast<vec4f>(${share.score(i, j, q)})`;
  return `${stage.fetch("k", "keyStart")}
${stage.store("k")}
    workgroupBarrier();
${scoresText(tile, columns)}
${share.rows((i) => `  var among_${i} = vec4f(UNSEEN);`)}
${share.fours((i, j, q) => `  among_${i} = max(among_${i}, select(vec4f(UNSEEN), ${raw(i, j, q)}, ${share.isSeen(i, j, q, "keyStart")}));`)}
${share.rows((i) => `  var first_${i} = greatest(among_${i});\n  first_${i} = max(first_${i}, subgroupShuffleXor(first_${i}, 1u));\n  first_${i} = select(0.0, first_${i} * scale, first_${i} > LOWEST);\n  // A whole number, so that it can be moved without rounding.\n  var reference_${i} = floor(first_${i}) - HEADROOM;`)}
    workgroupBarrier();`;
}

/**
 * Turns scores into weights, in two parts each. Where one of 16 rows would exceed the range of f16, the references of all of them
 * rise by a whole number, and `changes` tells the factor of earlier sums.
 */
function weightsText(tile: AttentionSplitTile, columns: number): string {
  const { blocks } = splitLayout(tile, columns);
  const share = shares(tile, stagedForm(columns));
  const score = (i: number, j: number, q: number) => `score_${i}_${j}_${q}`;
  const relative = (i: number, j: number, q: number) =>
    `fma(bitcast<vec4f>(${share.score(i, j, q)}), vec4f(scale), vec4f(-reference_${i}))`;
  const parts = share.rows((i) =>
    share.runs((j) =>
      lines(
        2,
        (h) => `    {
      let low = leading(${score(i, j, 2 * h)});
      let high = leading(${score(i, j, 2 * h + 1)});
      ${share.weight(i, j, h)} = eight_halves(low, high);
      ${share.score(i, j, 2 + h)} = eight_halves((${score(i, j, 2 * h)} - low) * ${UP}, (${score(i, j, 2 * h + 1)} - high) * ${UP});
    }`,
      ),
    ),
  );
  return `${share.fours((i, j, q) => `    var ${score(i, j, q)} = ${relative(i, j, q)};\n    low_${i} = min(low_${i}, ${score(i, j, q)});`)}
    if (keyBase + KEYS > seenByAll) {
${share.fours((i, j, q) => `      ${score(i, j, q)} = select(vec4f(UNSEEN), ${score(i, j, q)}, ${share.isSeen(i, j, q, "keyBase")});`)}
    }
${share.rows(
  (i) => `    let highest_${i} = ${share.highest(i)};
    var change_${i} = 1.0;
    if (subgroupAny(greatest(highest_${i}) > LARGEST)) {
      let shift = max(ceil(subgroupMax(greatest(highest_${i}))) - (LARGEST - 1.0), 0.0);
      reference_${i} += shift;
      change_${i} = power_of_two(-i32(min(shift, 126.0)));
      total_${i} *= change_${i};
${share.runs((j) => lines(4, (q) => `      ${score(i, j, q)} -= shift;\n      low_${i} = min(low_${i}, ${relative(i, j, q)});`))}
    }
    if (place == 0u) { changes[team][${tile.across === 1 ? "" : `member * ${blocks.weights}u + `}${i}u] = change_${i}; }`,
)}
${share.fours((i, j, q) => `    ${score(i, j, q)} = exp2(${score(i, j, q)});\n    total_${i} += ${score(i, j, q)};`)}
${parts}`;
}

/** Adds weights times values to the output, after its sums were scaled as references have changed. */
function valuesText(tile: AttentionSplitTile, columns: number): string {
  const { pitches, blocks } = splitLayout(tile, columns);
  const values = tile.own === "none" ? "key_panel" : "value_panel";
  const low = (part: "high" | "low", units: number) => (part === "low" ? units : 0);
  const weight = (name: string, part: "high" | "low", k: number) =>
    lines(
      blocks.rows,
      (i) =>
        `      let ${name}_${i} = subgroupMatrixLoad<${operandType("left")}, row_major>(&scores[team], ${i * SIDE * pitches.scores + 4 * k + low(part, 2)}u, ${pitches.scores}u);`,
    );
  const value = (name: string, part: "high" | "low", k: number, j: number) =>
    `      let ${name}_${j} = subgroupMatrixLoad<${operandType("right")}, row_major>(&${values}, ${ofMember(tile, 2 * blocks.out)}${k * SIDE * pitches.values + 2 * j + low(part, columns / UNIT)}u, ${pitches.values}u);`;
  const add = (sums: "out" | "out_low", left: string, right: string, j: number) =>
    lines(
      blocks.rows,
      (i) =>
        `      ${sums}_${i}_${j} = subgroupMatrixMultiplyAccumulate(${left}_${i}, ${right}_${j}, ${sums}_${i}_${j});`,
    );
  const scaled = (i: number) =>
    (["out", "out_low"] as const)
      .map((sums) =>
        lines(
          blocks.out,
          (j) => `      ${sums}_${i}_${j} = subgroupMatrixScalarMultiply(${sums}_${i}_${j}, change);`,
        ),
      )
      .join("\n");
  return `${lines(
    blocks.rows,
    (i) => `    {
      let change = changes[team][${i}u];
      if (change != 1.0) {
${scaled(i)}
      }
    }`,
  )}
${lines(
  tile.keys / SIDE,
  (k) => `    {
${weight("weight", "high", k)}
${weight("rest", "low", k)}
${lines(
  blocks.out,
  (j) => `${value("value", "high", k, j)}
${value("value_low", "low", k, j)}
${add("out", "weight", "value", j)}
${add("out_low", "rest", "value", j)}
${add("out_low", "weight", "value_low", j)}`,
)}
    }`,
)}${tile.own === "none" ? "\n    workgroupBarrier(); // weights and values have been read" : ""}`;
}

/** Walks through all keys. */
export function keysText(tile: AttentionSplitTile, columns: number): string {
  const separate = tile.own !== "none";
  const stage = matrixStaging(tile, stagedForm(columns));
  const storedKeys = `${stage.store("k")}\n    workgroupBarrier();`;
  const nextKeys = stage.fetch("k", "keyBase + KEYS");
  return `${stage.fetch("k", "keyStart")}
${separate ? storedKeys : ""}
  for (var keyBase = keyStart; keyBase < keyEnd; keyBase += KEYS) {
${separate ? "" : storedKeys}
${stage.fetch("v", "keyBase")}
${scoresText(tile, columns)}
${stage.store("v")}
${separate ? nextKeys : ""}
${weightsText(tile, columns)}
${separate ? stage.store("k") : ""}
    workgroupBarrier();
${separate ? "" : nextKeys}
${valuesText(tile, columns)}
  }`;
}
