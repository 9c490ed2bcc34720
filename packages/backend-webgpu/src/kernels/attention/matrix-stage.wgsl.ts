import { lines } from "../../program/index.js";
import { SIDE, SUBGROUP, UNIT } from "../tiles/index.js";
import {
  type AttentionMatrixForm,
  type AttentionMatrixTile,
  attentionLayout,
  attentionMatrixName,
  attentionMatrixThreads,
} from "./matrix-tile.js";

/** The type of an f16 operand. */
export const operandType = (side: "left" | "right"): string =>
  `subgroup_matrix_${side}<f16, ${SIDE}, ${SIDE}>`;

/** How keys and values get from their buffers to their panels, through registers `fetched_...`. */
export interface MatrixStaging {
  /** Declares the registers. */
  readonly registers: string;
  /** Reads the keys or values from key `first` on into the registers. */
  fetch(name: "k" | "v", first: string): string;
  /** Writes them from there to the panel. */
  store(name: "k" | "v"): string;
}

/** Runs of eight halves, the same number for each invocation. */
export function matrixStaging(tile: AttentionMatrixTile, form: AttentionMatrixForm): MatrixStaging {
  const { pitches } = attentionLayout(tile, form.columns);
  const threads = attentionMatrixThreads(tile);
  const perRow = form.columns / UNIT;
  const rounds = (tile.keys * perRow) / threads;
  if (!Number.isInteger(rounds)) throw new RangeError(`${attentionMatrixName(tile)} does not divide evenly`);
  const each = (line: (round: number, row: string, part: string) => string) =>
    lines(rounds, (i) =>
      line(i, `(lane + ${i * threads}u) / ${perRow}u`, `(lane + ${i * threads}u) % ${perRow}u`),
    );
  return {
    registers: each((i) => `  var fetched_${i} = vec4u();`),
    /** Keys past the end repeat the last one, and have no weight. */
    fetch: (name, first) =>
      each((i, row, part) => {
        const value = `${name}[parameters.${name}_offset + (firstKey + min(${first} + ${row}, keyLast)) * headUnits + ${part}]`;
        return `    ${form.whole ? "" : `if (${part} < headUnits) { `}fetched_${i} = ${value};${form.whole ? "" : " }"}`;
      }),
    store: (name) => {
      const panel = name === "v" && tile.separate ? "value_panel" : "key_panel";
      return each((i, row, part) => `    ${panel}[${row} * ${pitches.keys}u + ${part}] = fetched_${i};`);
    },
  };
}

/**
 * Leaves the subgroup's queries in registers as `query_ROWS_DEPTH`, through the memory of its scores, as many
 * head elements at a time as fit there. A negative scale becomes a positive one of negated queries: the
 * largest product then has the largest score.
 */
export function queriesText(tile: AttentionMatrixTile, form: AttentionMatrixForm): string {
  const { rows, pitches, blocks } = attentionLayout(tile, form.columns);
  const chunk = 2 * tile.keys;
  return lines(Math.ceil(form.columns / chunk), (c) => {
    const units = Math.min(chunk, form.columns - c * chunk) / UNIT;
    const first = (c * chunk) / UNIT;
    const value = `q[parameters.q_offset + (firstRow + row) * headUnits + min(along, headUnits - 1u)] ^ vec4u(flip)`;
    return `  for (var unit = place; unit < ${rows * units}u; unit += ${SUBGROUP}u) {
    let row = min(ownBase + unit / ${units}u, parameters.rows - 1u);
    let along = unit % ${units}u + ${first}u;
    scores[subgroup][unit / ${units}u * ${pitches.scores}u + unit % ${units}u] = select(vec4u(), ${value}, along < headUnits);
  }
  workgroupBarrier();
${lines(blocks.rows, (i) => lines((units * UNIT) / SIDE, (d) => `  let query_${i}_${d + (first * UNIT) / SIDE} = subgroupMatrixLoad<${operandType("right")}, col_major>(&scores[subgroup], ${i * SIDE * pitches.scores + 2 * d}u, ${pitches.scores}u);`))}
  workgroupBarrier();`;
  });
}
