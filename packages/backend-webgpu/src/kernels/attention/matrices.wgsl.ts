import {
  halfFunctions,
  input,
  linearBuiltins,
  lines,
  memoized,
  output,
  type Program,
  program,
  type Storage,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import { SIDE, SUBGROUP, UNIT } from "../tiles/index.js";
import { type Hiding, hidingName, hidingParameters, windowFunctions } from "./hiding.wgsl.js";
import { logBindings, logFunction, logName } from "./log-sum-exp.wgsl.js";
import { maskFour, maskReads, matrixMaskBindings, matrixMaskFunctions } from "./matrix-mask.wgsl.js";
import { firstPlaces, matrixStaging, operandType, queriesText, rowPlace } from "./matrix-stage.wgsl.js";
import {
  type AttentionMatrixForm,
  type AttentionMatrixTile,
  attentionLayout,
  attentionMatrixName,
  attentionMatrixThreads,
  ofMember,
  ROW_SHARE,
} from "./matrix-tile.js";
import { placeParameters, placesName } from "./places.wgsl.js";
import { partStart, rowLimits, seenFunction } from "./rows.wgsl.js";

/**
 * Rows that see this many keys may have rough weights. Rounding weights P to f16 is an error of at most 2^-11
 * sum P |v|, and the roundings of two f32 sums over n keys may add up to 2 n 2^-23 sum P |v|: as much from
 * 1024 keys on if half of the weights' errors cancel, and for certain from 2048.
 */
export const ROUGH_KEYS = 1024;

const sum = `subgroup_matrix_result<f32, ${SIDE}, ${SIDE}>`;

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

/** The scores of an invocation: rows, and runs of 16 keys in them. */
function shares(tile: AttentionMatrixTile, form: AttentionMatrixForm) {
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

/** The largest score of the first step, for each row. */
function firstText(tile: AttentionMatrixTile, form: AttentionMatrixForm): string {
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
  const rough = each(
    (i, j, h) =>
      `    ${share.weight(i, j, h)} = eight_halves(score_${i}_${j}_${2 * h}, score_${i}_${j}_${2 * h + 1});`,
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
${form.weights === "counted" && !isFine ? `${share.fours((i, j, q) => `    hidden_${i} += select(vec4u(), vec4u(1u), ${share.hides(i, j, q)});`)}\n` : ""}${share.rows((i) => `    high_${i} = max(high_${i}, ${share.highest(i)});`)}
${share.fours((i, j, q) => `    score_${i}_${j}_${q} = exp2(score_${i}_${j}_${q});\n    total_${i} += score_${i}_${j}_${q};`)}
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
${form.weights === "counted" && !isFine ? `${share.rows((i) => `    hidden_${i} = vec4u();`)}\n` : ""}${stage.fetch("k", "keyStart")}
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

/** Rows of a workgroup that may see this few keys at most, whatever a mask hides. */
function isFew(hiding: Hiding | undefined): string {
  const seen = "seen_until(firstQuery, parameters.key_length)";
  const older = hiding?.window ? ` < ${ROUGH_KEYS}u + seen_since(lastQuery)` : ` < ${ROUGH_KEYS}u`;
  return `${seen}${older}`;
}

/**
 * Rough weights, and fine ones instead if a mask turns out to leave some row few keys. What it hides beyond those that a row
 * sees at all may count too.
 */
function countedText(tile: AttentionMatrixTile, form: AttentionMatrixForm): string {
  const { blocks } = attentionLayout(tile, form.columns);
  const share = shares(tile, form);
  const older = (i: number) => (form.hiding?.window ? ` + since_${i}` : "");
  const few = (i: number) =>
    `(row_high_${i} > LOWEST && f32(seen_${i}) < ${ROUGH_KEYS}.0 + row_hidden_${i} && ownBase + ${share.row(i)} < parameters.rows)`;
  return `  var isFine = ${isFew(form.hiding)};
  if (!isFine) {
${share.rows((i) => `    var hidden_${i} = vec4u(); // keys that the mask hides from a row`)}
${keysText(tile, form, false)}
${share.rows(
  (i) => `    var row_hidden_${i} = add_up(vec4f(hidden_${i}));
    row_hidden_${i} += subgroupShuffleXor(row_hidden_${i}, 1u);
    row_hidden_${i} += f32(0u${older(i)});
    var row_high_${i} = greatest(high_${i});
    row_high_${i} = max(row_high_${i}, subgroupShuffleXor(row_high_${i}, 1u));`,
)}
    let anyFew = subgroupAny(${share.any(few)});
${agreedText(tile, "anyFew", "fewKept")}
    isFine = fewKept;
    if (isFine) {
${share.rows((i) => `      total_${i} = vec4f();\n      high_${i} = vec4f(UNSEEN);`)}
${lines(blocks.rows, (i) => lines(blocks.out, (j) => `      out_${i}_${j} = zero;`))}
    }
  }
  if (isFine) {
${keysText(tile, form, true)}
  }`;
}

/** The loops over all keys. */
function allKeysText(tile: AttentionMatrixTile, form: AttentionMatrixForm): string {
  const { weights, hiding } = form;
  if (weights === "counted") return countedText(tile, form);
  if (weights !== "mixed") return keysText(tile, form, weights === "fine");
  return `  if (${isFew(hiding)}) {\n${keysText(tile, form, true)}\n  } else {\n${keysText(tile, form, false)}\n  }`;
}

/** Tells all invocations whether something is true in any subgroup. */
function agreedText({ subgroups }: AttentionMatrixTile, own: string, result: string): string {
  return `    if (place == 0u) { flags[subgroup] = u32(${own}); }
    let ${result}_flags = workgroupUniformLoad(&flags);
    let ${result} = (${Array.from({ length: subgroups }, (_, i) => `${result}_flags[${i}]`).join(" | ")}) != 0u;`;
}

/** Output through the scores' memory, as many columns at a time as fit there. */
function storeText(tile: AttentionMatrixTile, form: AttentionMatrixForm): string {
  const { rows, pitches, blocks } = attentionLayout(tile, form.columns);
  const share = shares(tile, form);
  const isPart = form.results === "parts";
  // The factor of a row of the output is kept behind its scores.
  const factor = (row: string) => `scores[team][${row} * ${pitches.scores}u + ${pitches.scores - 1}u].x`;
  const log = (i: number) => `
    let row = ownBase + ${share.row(i)};
    if (row < parameters.rows) { store_log(resultRow + row, reference_${i}, sum_${i}); }`;
  return `${share.rows(
    (i) => `  var sum_${i} = add_up(total_${i});
  sum_${i} += subgroupShuffleXor(sum_${i}, 1u);
  if (place % ${ROW_SHARE}u == 0u) {
${
  isPart
    ? `    let row = ownBase + ${share.row(i)};
    if (row < parameters.rows) {
      statistics[parameters.statistics_offset + resultRow + row] = vec2f(select(LOWEST, reference_${i}, sum_${i} > 0.0), sum_${i});
    }`
    : `    // A row that sees no key gives zeros.
    ${factor(share.row(i))} = bitcast<u32>(select(0.0, 1.0 / max(sum_${i}, 1.0e-30), sum_${i} > 0.0));${form.logs ? log(i) : ""}`
}
  }`,
  )}
${lines(Math.ceil(blocks.out / blocks.scores), (shot) => {
  const count = Math.min(blocks.scores, blocks.out - shot * blocks.scores);
  const store = (i: number, j: number) =>
    `  subgroupMatrixStore<row_major>(&scores[team], ${ofMember(tile, 4 * blocks.scores)}${i * SIDE * pitches.scores + 4 * j}u, out_${i}_${j + shot * blocks.scores}, ${pitches.scores}u);`;
  return `  workgroupBarrier();
${lines(blocks.rows, (i) => lines(count, (j) => store(i, j)))}
  workgroupBarrier();
  for (var unit = ${ofMember(tile, SUBGROUP)}place; unit < ${rows * tile.across * count * 2}u; unit += ${tile.across * SUBGROUP}u) {
    let row = unit / ${tile.across * count * 2}u;
    let whose = unit / ${count * 2}u % ${tile.across}u;
    let octet = unit % ${count * 2}u;
    let at = row * ${pitches.scores}u + whose * ${4 * blocks.scores}u + octet * 2u;
    let along = whose * ${2 * blocks.out}u + ${shot * blocks.scores * 2}u + octet;
    if (ownBase + row < parameters.rows && along < headUnits) {
      let ownRow = ownBase + row;
      store_octet(out_first + ${rowPlace(form, "out", "ownRow")} + along, ${isPart ? "1.0" : `bitcast<f32>(${factor("row")})`},
        bitcast<vec4f>(scores[team][at]), bitcast<vec4f>(scores[team][at + 1u]));
    }
  }`;
})}`;
}

const storeOctet = {
  halves: `results[parameters.results_offset + at] = vec4u(
    pack_halves(low.x * factor, low.y * factor), pack_halves(low.z * factor, low.w * factor),
    pack_halves(high.x * factor, high.y * factor), pack_halves(high.z * factor, high.w * factor));`,
  parts: `results[parameters.results_offset + 2u * at] = low * factor;
  results[parameters.results_offset + 2u * at + 1u] = high * factor;`,
};

/**
 * As `attentionProgram`, with both products on the matrix units of a GPU: f16 operands, f32 sums. WGSL gives no
 * access to the elements of subgroup matrices, so invocations read scores from workgroup memory and write weights
 * back as f16.
 *
 * For the same reason, the output cannot be rescaled when a larger score comes up. So weights are relative to the
 * largest score of the first step, with room for others 2^LARGEST times as heavy. If that was not enough for some
 * row, which shows at the end, the workgroup begins again, once, with the largest scores of all, which it then knows.
 */
export const attentionMatrixProgram: (tile: AttentionMatrixTile, form: AttentionMatrixForm) => Program =
  memoized((tile: AttentionMatrixTile, form: AttentionMatrixForm): Program => {
    const { panels, blocks, rows } = attentionLayout(tile, form.columns);
    const { columns, whole, weights, results, hiding, logs = false, apart = false } = form;
    const share = shares(tile, form);
    const stage = matrixStaging(tile, form);
    const eachOut = (line: (i: number, j: number) => string) =>
      lines(blocks.rows, (i) => lines(blocks.out, (j) => line(i, j)));
    const panel = (name: string, units: number) => `var<workgroup> ${name}: array<vec4u, ${units}>;`;
    const ofTeams = (name: string, units: number) =>
      `var<workgroup> ${name}: array<array<vec4u, ${units}>, ${tile.subgroups / tile.across}>;`;
    const isPart = results === "parts";
    /** Of the i-th row of an invocation. */
    const ofRow = (i: number) => {
      const row = `ownBase + ${share.row(i)}`;
      const place = `\n  let mask_${i} = mask_row(matrix, min(${row}, parameters.rows - 1u));`;
      const since = `\n  let since_${i} = seen_since((${row}) % parameters.query_length);`;
      return `${hiding?.mask === undefined ? "" : place}${hiding?.window ? since : ""}`;
    };
    const statistics: Record<string, Storage> = isPart ? { statistics: output("vec2f") } : {};
    return program<string, string>({
      name: `attention_matrices_${attentionMatrixName(tile)}x${columns}${whole ? "" : "_within"}_${weights}_${results}${hidingName(hiding)}${logName(logs)}${placesName(apart)}`,
      enable: ["f16", "subgroups", "chromium_experimental_subgroup_matrix"],
      directives: ["diagnostic(off, chromium.subgroup_matrix_uniformity);"],
      bindings: {
        q: input("half8"), // matrices x rows x head_size
        k: input("half8"), // matrices x key_pitch x head_size
        v: input("half8"), // matrices x key_pitch x head_size
        ...matrixMaskBindings(hiding),
        results: output(isPart ? "vec4f" : "half8"), // (parts x) matrices x rows x head_size
        ...statistics, // parts x matrices x rows
        ...logBindings(logs), // matrices x rows
      },
      parameters: {
        ...{
          matrices: "u32",
          rows: "u32",
          query_length: "u32",
          key_length: "u32",
          key_pitch: "u32",
          head_size: "u32",
        },
        ...{
          part_keys: "u32",
          scale: "f32",
          visible: "i32",
          ...hidingParameters(hiding),
          ...placeParameters(apart),
        },
      },
      body: wgsl`
${workgroupIndex}
${halfFunctions}
const ROWS = ${tile.queries}u;
const KEYS = ${tile.keys}u;
const LOWEST = -1.0e38;
const UNSEEN = -2.0e38;
const LARGEST = 15.0; // weights are at most two to this: f16 ends just below 2^16

${panel("key_panel", panels.keys)}
${tile.own === "none" ? "" : panel("value_panel", panels.values)}
${tile.own === "all" ? ofTeams("weights", panels.weights) : ""}
${ofTeams("scores", panels.scores)}
var<workgroup> flags: array<u32, ${tile.subgroups}>;

fn greatest(v: vec4f) -> f32 { return max(max(v.x, v.y), max(v.z, v.w)); }
fn add_up(v: vec4f) -> f32 { return (v.x + v.y) + (v.z + v.w); }
/// The leading bits of f32 numbers, as many as f16 has.
fn leading(v: vec4f) -> vec4f { return bitcast<vec4f>(bitcast<vec4u>(v) & vec4u(0xffffe000u)); }
fn eight_halves(low: vec4f, high: vec4f) -> vec4u {
  return vec4u(pack2x16float(low.xy), pack2x16float(low.zw), pack2x16float(high.xy), pack2x16float(high.zw));
}
${seenFunction}${windowFunctions(hiding)}${matrixMaskFunctions(hiding)}${logFunction(logs, "two")}
fn store_octet(at: u32, factor: f32, low: vec4f, high: vec4f) {
  ${storeOctet[results]}
}

// One workgroup computes ROWS rows of the output.
@compute @workgroup_size(${attentionMatrixThreads(tile)})
fn main(${linearBuiltins}, @builtin(subgroup_id) subgroup: u32, @builtin(subgroup_invocation_id) place: u32) {
  let tiles = (parameters.rows + ROWS - 1u) / ROWS;
  let parts = (parameters.key_length + parameters.part_keys - 1u) / parameters.part_keys;
  let group = workgroup_index(workgroup, workgroups);
  if (group >= tiles * parts * parameters.matrices) { return; }
  let resultsCount = parts * parameters.matrices;
  // Where all keys are seen, workgroups of the same keys go together. Else the last rows of all matrices come
  // first: they may see most keys, and what starts last should be short.
  let isEven = parameters.visible + 1 >= i32(parameters.key_length);
  let result = select(group % resultsCount, group / tiles, isEven); // part * matrices + matrix
  let rowBase = select(tiles - 1u - group / resultsCount, group % tiles, isEven) * ROWS;
  let matrix = result % parameters.matrices;
  let ${partStart(hiding)} = result / parameters.matrices * parameters.part_keys;
  let headUnits = ${whole ? `${columns / UNIT}u` : `parameters.head_size / ${UNIT}u`};
${firstPlaces(form)}
  let resultRow = result * parameters.rows;

${rowLimits(hiding)}
  let scale = abs(parameters.scale);
  let flip = select(0u, 0x80008000u, parameters.scale < 0.0);

  let team = subgroup${tile.across === 1 ? "" : ` / ${tile.across}u;\n  let member = subgroup % ${tile.across}u`};
  let ownBase = rowBase + team * ${rows}u;
${stage.registers}
${queriesText(tile, form)}
  let zero = ${sum}();
${eachOut((i, j) => `  var out_${i}_${j} = zero;`)}
${share.rows(
  (i) => `  let seen_${i} = seen_until((ownBase + ${share.row(i)}) % parameters.query_length, keyEnd);
  var reference_${i} = LOWEST; // the score of weight 1, scaled
  var high_${i} = vec4f(UNSEEN); // of this invocation's scores, relative to it
  var total_${i} = vec4f(); // of its weights${ofRow(i)}`,
)}
${firstText(tile, form)}
${allKeysText(tile, form)}
${storeText(tile, form)}
}
`,
    });
  });
