import { lines } from "../../program/index.js";
import { type Hiding, operandType } from "../attention/index.js";
import { SIDE, SUBGROUP, UNIT } from "../tiles/index.js";
import {
  type GradientMatrixTile,
  gradientMatrixLayout,
  gradientMatrixName,
  gradientMatrixThreads,
} from "./matrix-tile.js";
import { operands, ownLast, type Side } from "./sides.wgsl.js";

/** The properties that a kernel is generated for, besides its tile; sizes are parameters. */
export interface GradientMatrixForm {
  readonly side: Side;
  /** Head elements, a multiple of 16, with zeros after those of the problem. */
  readonly columns: number;
  /** headSize is `columns`. */
  readonly whole: boolean;
  readonly hiding: Hiding | undefined;
}

/** The first row of operands `q`, `g` of queries or `k`, `v` of keys in their buffers. */
const baseOf: Readonly<Record<string, string>> = {
  ...{ q: "query_base", g: "query_base" },
  ...{ k: "key_base", v: "key_base" },
};

/** Where the other rows of an operand are in workgroup memory. */
export const panelOf = ({ panels }: GradientMatrixTile, operand: 0 | 1): string =>
  panels === 1 ? "panel" : `panel_${operand}`;

/** Statements of a kernel, and its declarations. */
export interface Staging {
  readonly memory: string;
  readonly registers: string;
  /** Reads rows from `first` on; those after `last` repeat it, and have no weight. */
  readonly fetch: (operand: 0 | 1, first: string, last: string) => string;
  readonly store: (operand: 0 | 1) => string;
  /** The same of what the queries have. */
  readonly fetchQueries: (first: string, last: string) => string;
  readonly storeQueries: string;
}

/** How the other rows of an operand get to the panel, through registers, and what belongs to them. */
export function staging(tile: GradientMatrixTile, form: GradientMatrixForm): Staging {
  const { side, columns, whole, hiding } = form;
  const { pitches } = gradientMatrixLayout(tile, columns);
  const fours = tile.others / 4;
  const threads = gradientMatrixThreads(tile);
  const perRow = columns / UNIT;
  const rounds = (tile.others * perRow) / threads;
  if (!Number.isInteger(rounds)) throw new RangeError(`${gradientMatrixName(tile)} does not divide evenly`);
  const each = (line: (round: number, row: string, part: string) => string) =>
    lines(rounds, (i) =>
      line(i, `(lane + ${i * threads}u) / ${perRow}u`, `(lane + ${i * threads}u) % ${perRow}u`),
    );
  // Of queries, each of the first invocations has four.
  const ofQueries: Readonly<Record<string, (row: string) => string>> =
    side === "keys"
      ? {
          logs: (row) => `statistics[parameters.statistics_offset + query_base + ${row}].x`,
          deltas: (row) => `statistics[parameters.statistics_offset + query_base + ${row}].y`,
          ...(hiding?.mask === undefined ? {} : { masks: (row: string) => `mask_row(matrix, ${row})` }),
        }
      : {};
  const typeOf = (name: string) => (name === "masks" ? "vec4u" : "vec4f");
  const eachOf = (line: (name: string) => string) => Object.keys(ofQueries).map(line).join("\n");
  const firstOnes = (text: string) => (text === "" ? "" : `    if (lane < ${fours}u) {\n${text}\n    }`);
  return {
    memory: eachOf((name) => `var<workgroup> ${name}: array<${typeOf(name)}, ${fours}>;`),
    registers: `${each((i) => `  var fetched_${i} = vec4u();`)}
${eachOf((name) => `  var fetched_${name} = ${typeOf(name)}();`)}`,
    fetch: (operand: 0 | 1, first: string, last: string) =>
      each((i, row, part) => {
        const name = operands[side].other[operand];
        const value = `${name}[parameters.${name}_offset + (${baseOf[name]} + min(${first} + ${row}, ${last})) * headUnits + ${part}]`;
        const read = `fetched_${i} = ${value};`;
        return `    ${whole ? read : `if (${part} < headUnits) { ${read} }`}`;
      }),
    store: (operand: 0 | 1) =>
      each(
        (i, row, part) =>
          `    ${panelOf(tile, operand)}[${row} * ${pitches.panel}u + ${part}] = fetched_${i};`,
      ),
    fetchQueries: (first: string, last: string) =>
      firstOnes(
        eachOf((name) => {
          const rows = [0, 1, 2, 3].map((c) => `min(${first} + lane * 4u + ${c}u, ${last})`);
          return `      fetched_${name} = ${typeOf(name)}(${rows.map(ofQueries[name]!).join(", ")});`;
        }),
      ),
    storeQueries: firstOnes(eachOf((name) => `      ${name}[lane] = fetched_${name};`)),
  };
}

/** Leaves the subgroup's own rows in registers as `own_OPERAND_ROWS_DEPTH`, through the memory of its scores. */
export function ownText(tile: GradientMatrixTile, { side, columns }: GradientMatrixForm): string {
  const { rows, pitches, blocks } = gradientMatrixLayout(tile, columns);
  const chunk = 2 * tile.others;
  return operands[side].own
    .map((name, operand) =>
      lines(Math.ceil(columns / chunk), (c) => {
        const units = Math.min(chunk, columns - c * chunk) / UNIT;
        const first = (c * chunk) / UNIT;
        const value = `${name}[parameters.${name}_offset + (${baseOf[name]} + row) * headUnits + min(along, headUnits - 1u)]`;
        return `  for (var unit = place; unit < ${rows * units}u; unit += ${SUBGROUP}u) {
    let row = min(ownBase + unit / ${units}u, ${ownLast[side]});
    let along = unit % ${units}u + ${first}u;
    scores[subgroup][unit / ${units}u * ${pitches.scores}u + unit % ${units}u] = select(vec4u(), ${value}, along < headUnits);
  }
  workgroupBarrier();
${lines(blocks.rows, (i) => lines((units * UNIT) / SIDE, (d) => `  let own_${operand}_${i}_${d + (first * UNIT) / SIDE} = subgroupMatrixLoad<${operandType("right")}, col_major>(&scores[subgroup], ${i * SIDE * pitches.scores + 2 * d}u, ${pitches.scores}u);`))}
  workgroupBarrier();`;
      }),
    )
    .join("\n");
}
