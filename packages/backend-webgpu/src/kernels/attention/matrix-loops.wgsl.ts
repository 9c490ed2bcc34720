import { lines } from "../../program/index.js";
import { SIDE } from "../tiles/index.js";
import type { Hiding } from "./hiding.wgsl.js";
import { shares } from "./matrix-shares.wgsl.js";
import { matrixStaging, operandType } from "./matrix-stage.wgsl.js";
import {
  type AttentionMatrixForm,
  type AttentionMatrixTile,
  attentionLayout,
  isPrepared,
  ofMember,
} from "./matrix-tile.js";

/**
 * Rows that see this many keys may have rough weights. Rounding weights P to f16 is an error of at most 2^-11
 * sum P |v - result|, since the sum of the rounded weights divides them, and the roundings of two f32 sums over n keys may
 * add up to 2 n 2^-23 sum P |v|: as much from 896 keys on if 9/16 of the weights' errors cancel. Of normal scores with
 * deviations from 0.33 to 10, rounded weights of 768 to 1024 keys led to 0.2 to 1.6 of that bound, less than those of 1024
 * divided by the sum before rounding (0.2 to 1.7).
 */
export const ROUGH_KEYS = 896;

/** Products with the keys in their panel, to the subgroup's scores. */
function scoresText(tile: AttentionMatrixTile, form: AttentionMatrixForm): string {
  const { pitches, blocks } = attentionLayout(tile, form.columns);
  const each = (line: (i: number, j: number) => string) =>
    lines(blocks.rows, (i) => lines(blocks.scores, (j) => line(i, j)));
  const product = (i: number, j: number, d: number) =>
    `    ${d === 0 ? "var " : ""}score_${i}_${j} = subgroupMatrixMultiplyAccumulate(key_${d}_${j}, query_${i}_${d}, ${d === 0 ? "zero" : `score_${i}_${j}`});`;
  // Keys times queries, stored by columns: on an NVIDIA H200 up to 8% faster than queries times keys by rows.
  return `    {
${lines(form.columns / SIDE, (d) =>
  lines(
    blocks.scores,
    (
      j,
    ) => `    let key_${d}_${j} = subgroupMatrixLoad<${operandType("left")}, row_major>(&key_panel, ${ofMember(tile, (tile.keys / tile.across) * pitches.keys)}${j * SIDE * pitches.keys + 2 * d}u, ${pitches.keys}u);
${lines(blocks.rows, (i) => product(i, j, d))}`,
  ),
)}
${tile.own === "values" ? "    workgroupBarrier(); // weights have been read" : ""}
${each((i, j) => `    subgroupMatrixStore<col_major>(&scores[team], ${ofMember(tile, tile.keys / tile.across / 4)}${i * SIDE * pitches.scores + 4 * j}u, score_${i}_${j}, ${pitches.scores}u);`)}
    }
    workgroupBarrier();`;
}

/** The largest score of the first step, for each row. */
export function firstText(tile: AttentionMatrixTile, form: AttentionMatrixForm): string {
  const share = shares(tile, form);
  const stage = matrixStaging(tile, form);
  const { hiding } = form;
  // Keys that all rows see, if there are any in the window.
  const first = hiding?.window ? "keyFirst" : "keyStart";
  const raw = (i: number, j: number, q: number) => `bitcast<vec4f>(${share.score(i, j, q)})`;
  const hidden = share.fours((i, j, q) => {
    const scaled = `${raw(i, j, q)} * scale`;
    const score = hiding?.mask === undefined ? scaled : share.masked(i, j, q, scaled);
    const since = hiding?.window ? ` & (${share.isSince(i, j, q, first)})` : "";
    return `  among_${i} = max(among_${i}, select(vec4f(UNSEEN), ${score}, (${share.isSeen(i, j, q, first)})${since}));`;
  });
  return `${hiding?.window ? `    let keyFirst = max(keyStart, min(seenSinceByAll, keyLast) / ${SIDE}u * ${SIDE}u);\n` : ""}${stage.fetch("k", first)}
${stage.store("k")}
    workgroupBarrier();
${scoresText(tile, form)}
${share.rows((i) => `  var among_${i} = vec4f(UNSEEN);`)}
  {
${share.maskReads(first)}
${hiding === undefined ? share.fours((i, j, q) => `  among_${i} = max(among_${i}, select(vec4f(UNSEEN), ${raw(i, j, q)}, ${share.isSeen(i, j, q, "keyStart")}));`) : hidden}
  }
${share.rows((i) => `  var first_${i} = greatest(among_${i});\n  first_${i} = max(first_${i}, subgroupShuffleXor(first_${i}, 1u))${hiding === undefined ? " * scale" : ""};`)}${
  hiding === undefined
    ? ""
    : `\n${share.rows((i) => `  first_${i} = select(0.0, first_${i}, first_${i} > LOWEST); // or anything: see \`again\``)}`
}
    workgroupBarrier();`;
}

/** Adds the mask, and hides what is older than the window. */
function hiddenText(tile: AttentionMatrixTile, form: AttentionMatrixForm): string {
  const share = shares(tile, form);
  const { hiding } = form;
  const score = (i: number, j: number, q: number) => `score_${i}_${j}_${q}`;
  const mask = () => `
${share.fours((i, j, q) => `    ${score(i, j, q)} = ${share.masked(i, j, q, score(i, j, q))};`)}`;
  const window = `
    if (keyBase < seenSinceByAll) {
${share.fours((i, j, q) => `      ${score(i, j, q)} = select(vec4f(UNSEEN), ${score(i, j, q)}, ${share.isSince(i, j, q, "keyBase")});`)}
    }`;
  return `${hiding?.mask === undefined ? "" : mask()}${hiding?.window ? window : ""}`;
}

/** Turns the scores of a step into weights. */
function weightsText(tile: AttentionMatrixTile, form: AttentionMatrixForm, isFine: boolean): string {
  const share = shares(tile, form);
  const each = (line: (i: number, j: number, h: number) => string) =>
    share.rows((i) => share.runs((j) => lines(2, (h) => line(i, j, h))));
  // Sums of the weights as they are rounded, so that errors which all of them share do not count.
  const areRounded = !isFine && !form.logs;
  const rounded = (i: number) =>
    areRounded ? ` total_${i} += (halves_of(eight.xy) + halves_of(eight.zw));` : "";
  const rough = each(
    (i, j, h) =>
      `    { let eight = eight_halves(score_${i}_${j}_${2 * h}, score_${i}_${j}_${2 * h + 1}); ${share.weight(i, j, h)} = eight;${rounded(i)} }`,
  );
  // Remainders follow in the place of the run's scores.
  const fine = each(
    (i, j, h) => `    {
      let low = leading(score_${i}_${j}_${2 * h});
      let high = leading(score_${i}_${j}_${2 * h + 1});
      ${share.weight(i, j, h)} = eight_halves(low, high);
      ${share.score(i, j, 2 + h)} = eight_halves(score_${i}_${j}_${2 * h} - low, score_${i}_${j}_${2 * h + 1} - high);
    }`,
  );
  return `${share.fours((i, j, q) => `    var score_${i}_${j}_${q} = fma(bitcast<vec4f>(${share.score(i, j, q)}), vec4f(scale), vec4f(-reference_${i}));`)}${hiddenText(tile, form)}
    if (keyBase + KEYS > seenByAll) {
${share.fours((i, j, q) => `      score_${i}_${j}_${q} = select(vec4f(UNSEEN), score_${i}_${j}_${q}, ${share.isSeen(i, j, q, "keyBase")});`)}
    }
${share.rows((i) => `    high_${i} = max(high_${i}, ${share.highest(i)});`)}
${share.fours((i, j, q) => `    score_${i}_${j}_${q} = exp2(score_${i}_${j}_${q});${areRounded ? "" : `\n    total_${i} += score_${i}_${j}_${q};`}`)}
${isFine ? fine : rough}`;
}

/** Adds weights times values to the output. */
function valuesText(tile: AttentionMatrixTile, form: AttentionMatrixForm, isFine: boolean): string {
  const { pitches, blocks } = attentionLayout(tile, form.columns);
  const values = tile.own === "none" ? "key_panel" : "value_panel";
  const load = {
    weight: (i: number, k: number) =>
      tile.own === "all"
        ? `weights[team], ${i * SIDE * pitches.weights + 2 * k}u, ${pitches.weights}u`
        : `scores[team], ${i * SIDE * pitches.scores + 4 * k}u, ${pitches.scores}u`,
    rest: (i: number, k: number) =>
      `scores[team], ${i * SIDE * pitches.scores + 4 * k + 2}u, ${pitches.scores}u`,
  };
  const operands = isFine ? (["weight", "rest"] as const) : (["weight"] as const);
  const each = (line: (name: "weight" | "rest", i: number) => string) =>
    operands.map((name) => lines(blocks.rows, (i) => line(name, i))).join("\n");
  return `${lines(
    tile.keys / SIDE,
    (k) => `    {
${each((name, i) => `      let ${name}_${i} = subgroupMatrixLoad<${operandType("left")}, row_major>(&${load[name](i, k)});`)}
${lines(
  blocks.out,
  (
    j,
  ) => `      let value_${j} = subgroupMatrixLoad<${operandType("right")}, row_major>(&${values}, ${ofMember(tile, 2 * blocks.out)}${k * SIDE * pitches.values + 2 * j}u, ${pitches.values}u);
${each((name, i) => `      out_${i}_${j} = subgroupMatrixMultiplyAccumulate(${name}_${i}, value_${j}, out_${i}_${j});`)}`,
)}
    }`,
  )}
${tile.own === "none" || (tile.own === "all" && isFine) ? "    workgroupBarrier(); // weights and values have been read" : ""}`;
}

/** Walks through all keys, and again if the first step's scores were too low. */
function keysText(tile: AttentionMatrixTile, form: AttentionMatrixForm, isFine: boolean): string {
  const separate = tile.own !== "none";
  const { blocks } = attentionLayout(tile, form.columns);
  const share = shares(tile, form);
  const stage = matrixStaging(tile, form);
  const storedKeys = `${stage.store("k")}\n    workgroupBarrier();`;
  const nextKeys = stage.fetch("k", "keyBase + KEYS");
  // Where a mask hides the keys of the first step, or a window, its largest score says nothing of others.
  const isBeyond = (i: number) =>
    form.hiding === undefined
      ? `most_${i} > LARGEST`
      : `most_${i} > LARGEST || (most_${i} > LOWEST && most_${i} < headroom - 1.0)`;
  // Small weights are rounded to multiples of 2^-24. The larger the largest weight, the less that matters.
  return `  let headroom = ${isFine ? "4.0" : "0.0"}; // the largest weight of the first step is two to this
${share.rows((i) => `  reference_${i} = first_${i} - headroom;`)}
  var again = false;
  loop {
${stage.fetch("k", "keyStart")}
${separate ? storedKeys : ""}
  for (var keyBase = keyStart; keyBase < keyEnd; keyBase += KEYS) {
${separate ? "" : storedKeys}
${stage.fetch("v", "keyBase")}
${share.maskReads("keyBase")}
${scoresText(tile, form)}
${stage.store("v")}
${separate ? nextKeys : ""}
${weightsText(tile, form, isFine)}
${separate ? stage.store("k") : ""}
    workgroupBarrier();
${separate ? "" : nextKeys}
${valuesText(tile, form, isFine)}
  }
${share.rows((i) => `    var most_${i} = greatest(high_${i});\n    most_${i} = max(most_${i}, subgroupShuffleXor(most_${i}, 1u));`)}
    let anyBeyond = subgroupAny(${share.any(isBeyond)});
${agreedText(tile, "anyBeyond", "beyond")}
    if (again || !beyond) { break; }
    again = true;
${share.rows((i) => `    reference_${i} += most_${i} - headroom;\n    total_${i} = vec4f();`)}
${lines(blocks.rows, (i) => lines(blocks.out, (j) => `    out_${i}_${j} = zero;`))}
  }`;
}

/** Whether a row of the workgroup may see few keys. */
function isFew(hiding: Hiding | undefined): string {
  if (hiding?.mask !== undefined) return "few";
  const seen = "seen_until(firstQuery, parameters.key_length)";
  const older = hiding?.window ? ` < ${ROUGH_KEYS}u + seen_since(lastQuery)` : ` < ${ROUGH_KEYS}u`;
  return `${seen}${older}`;
}

/** Whether the mask leaves few keys to a row of the workgroup, which has an invocation for each row. */
function countedText(tile: AttentionMatrixTile, form: AttentionMatrixForm): string {
  if (!isPrepared(form)) return "";
  return `  let anyFew = subgroupAny(!is_attended(matrix, min(rowBase + lane % ROWS, parameters.rows - 1u)));
${agreedText(tile, "anyFew", "few")}
`;
}

/** The loops over all keys. */
export function allKeysText(tile: AttentionMatrixTile, form: AttentionMatrixForm): string {
  const { weights, hiding } = form;
  if (weights !== "mixed") return keysText(tile, form, weights === "fine");
  return `${countedText(tile, form)}  if (${isFew(hiding)}) {\n${keysText(tile, form, true)}\n  } else {\n${keysText(tile, form, false)}\n  }`;
}

/** Tells all invocations whether something is true in any subgroup. */
export function agreedText({ subgroups }: AttentionMatrixTile, own: string, result: string): string {
  return `    if (place == 0u) { flags[subgroup] = u32(${own}); }
    let ${result}_flags = workgroupUniformLoad(&flags);
    let ${result} = (${Array.from({ length: subgroups }, (_, i) => `${result}_flags[${i}]`).join(" | ")}) != 0u;`;
}
