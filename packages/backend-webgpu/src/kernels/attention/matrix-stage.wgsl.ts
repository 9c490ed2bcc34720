import { lines } from "../../program/index.js";
import { SIDE, SUBGROUP, UNIT } from "../tiles/index.js";
import {
  type AttentionMatrixForm,
  type AttentionMatrixTile,
  attentionLayout,
  attentionMatrixName,
  attentionMatrixThreads,
  ofMember,
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
  const units = tile.keys * perRow;
  const rounds = Math.ceil(units / threads);
  if (units % threads !== 0 && units > threads)
    throw new RangeError(`${attentionMatrixName(tile)} does not divide evenly`);
  /** Of many invocations, only the first have something to bring. */
  const some = (text: string) => (units < threads ? `    if (lane < ${units}u) {\n${text}\n    }` : text);
  const each = (line: (round: number, row: string, part: string) => string) =>
    lines(rounds, (i) =>
      line(i, `(lane + ${i * threads}u) / ${perRow}u`, `(lane + ${i * threads}u) % ${perRow}u`),
    );
  return {
    registers: each((i) => `  var fetched_${i} = vec4u();`),
    /** Keys past the end repeat the last one, and have no weight. */
    fetch: (name, first) =>
      some(
        each((i, row, part) => {
          const value = `${name}[${name}_first + min(${first} + ${row}, keyLast) * ${form.apart ? `${name}_pitch` : "headUnits"} + ${part}]`;
          return `    ${form.whole ? "" : `if (${part} < headUnits) { `}fetched_${i} = ${value};${form.whole ? "" : " }"}`;
        }),
      ),
    store: (name) => {
      const panel = name === "v" && tile.own !== "none" ? "value_panel" : "key_panel";
      return some(
        each((i, row, part) => `    ${panel}[${row} * ${pitches.keys}u + ${part}] = fetched_${i};`),
      );
    },
  };
}

/** Where the rows of a key head start, in units of eight halves. */
export function firstPlaces({ apart = false, results }: AttentionMatrixForm): string {
  if (!apart)
    return `  let q_first = parameters.q_offset + matrix * parameters.rows * headUnits;
  let k_first = parameters.k_offset + matrix * parameters.key_pitch * headUnits;
  let v_first = parameters.v_offset + matrix * parameters.key_pitch * headUnits;
  let out_first = result * parameters.rows * headUnits;`;
  const first = (name: string) =>
    `(matrix / parameters.kv_heads * parameters.${name}_batch + matrix % parameters.kv_heads * parameters.${name}_head) / ${UNIT}u`;
  return `  let q_first = parameters.q_offset + ${first("q")};
  let k_first = parameters.k_offset + ${first("k")};
  let v_first = parameters.v_offset + ${first("v")};
  let k_pitch = parameters.k_row / ${UNIT}u;
  let v_pitch = parameters.v_row / ${UNIT}u;
  let out_first = ${results === "parts" ? "result * parameters.rows * headUnits" : first("out")};`;
}

/** The place of a row of a key head behind the first one. */
export function rowPlace(
  { apart = false, results }: AttentionMatrixForm,
  name: "q" | "out",
  row: string,
): string {
  if (!apart || (name === "out" && results === "parts")) return `${row} * headUnits`;
  const { query, head } = {
    query: `${row} % parameters.query_length`,
    head: `${row} / parameters.query_length`,
  };
  return `(${head} * parameters.${name}_shared + ${query} * parameters.${name}_row) / ${UNIT}u`;
}

/**
 * Leaves the team's queries in registers as `query_ROWS_DEPTH`, through the memory of its scores, as many
 * head elements at a time as fit there. A negative scale becomes a positive one of negated queries: the
 * largest product then has the largest score.
 */
export function queriesText(tile: AttentionMatrixTile, form: AttentionMatrixForm): string {
  const { rows, pitches, blocks } = attentionLayout(tile, form.columns);
  const chunk = 2 * tile.keys;
  return lines(Math.ceil(form.columns / chunk), (c) => {
    const units = Math.min(chunk, form.columns - c * chunk) / UNIT;
    const first = (c * chunk) / UNIT;
    const value = `q[q_first + ${rowPlace(form, "q", "row")} + min(along, headUnits - 1u)] ^ vec4u(flip)`;
    return `  for (var unit = ${ofMember(tile, SUBGROUP)}place; unit < ${rows * units}u; unit += ${tile.across * SUBGROUP}u) {
    let row = min(ownBase + unit / ${units}u, parameters.rows - 1u);
    let along = unit % ${units}u + ${first}u;
    scores[team][unit / ${units}u * ${pitches.scores}u + unit % ${units}u] = select(vec4u(), ${value}, along < headUnits);
  }
  workgroupBarrier();
${lines(blocks.rows, (i) => lines((units * UNIT) / SIDE, (d) => `  let query_${i}_${d + (first * UNIT) / SIDE} = subgroupMatrixLoad<${operandType("right")}, col_major>(&scores[team], ${i * SIDE * pitches.scores + 2 * d}u, ${pitches.scores}u);`))}
  workgroupBarrier();`;
  });
}
